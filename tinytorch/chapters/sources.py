"""Sources that pages of the book test claims of: titles and addresses, the latter of one commit each."""

from typing import Final

COURSE_CAPSTONE: Final = "TinyTorch course, module 20, Capstone"
COURSE_CAPSTONE_README_URL: Final = (
    "https://github.com/MLSysBook/TinyTorch/blob/c6e46899578d54fe6e68ac50b1f616e622bfef5f/modules/20_capstone/README.md"
)
COURSE_CAPSTONE_URL: Final = "https://github.com/MLSysBook/TinyTorch/blob/0378da462c954573a1dfca3c01d9f466b461ad53/modules/20_capstone/capstone.py"
