"""Building of the package from its present sources alone; all else about it is in pyproject.toml."""

import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class CleanBuild(build_py):
    """Copies the sources to a folder that holds nothing from an earlier build, such as a module that is gone since."""

    def run(self) -> None:
        """Empty the folder, unless the package is installed in place, and copy."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": CleanBuild})
