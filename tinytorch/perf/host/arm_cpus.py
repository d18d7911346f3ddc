"""Names of 64-bit Arm CPUs by the numbers that each core gives of itself: who made it, and which of its parts it is.

Source: util-linux, sys-utils/lscpu-arm.c, so that a CPU is called what `lscpu` calls it.
"""

from __future__ import annotations

import re

#: Names of parts by the implementer's number.
_NAMES = {
    0x41: {  # Arm; Graviton is Neoverse-N1, -V1 or -V2, Grace is Neoverse-V2
        0xD01: "Cortex-A32",
        0xD02: "Cortex-A34",
        0xD03: "Cortex-A53",
        0xD04: "Cortex-A35",
        0xD05: "Cortex-A55",
        0xD06: "Cortex-A65",
        0xD07: "Cortex-A57",
        0xD08: "Cortex-A72",
        0xD09: "Cortex-A73",
        0xD0A: "Cortex-A75",
        0xD0B: "Cortex-A76",
        0xD0C: "Neoverse-N1",
        0xD0D: "Cortex-A77",
        0xD0E: "Cortex-A76AE",
        0xD40: "Neoverse-V1",
        0xD41: "Cortex-A78",
        0xD42: "Cortex-A78AE",
        0xD43: "Cortex-A65AE",
        0xD44: "Cortex-X1",
        0xD46: "Cortex-A510",
        0xD47: "Cortex-A710",
        0xD48: "Cortex-X2",
        0xD49: "Neoverse-N2",
        0xD4A: "Neoverse-E1",
        0xD4B: "Cortex-A78C",
        0xD4C: "Cortex-X1C",
        0xD4D: "Cortex-A715",
        0xD4E: "Cortex-X3",
        0xD4F: "Neoverse-V2",
        0xD80: "Cortex-A520",
        0xD81: "Cortex-A720",
        0xD82: "Cortex-X4",
        0xD83: "Neoverse-V3AE",
        0xD84: "Neoverse-V3",
        0xD85: "Cortex-X925",
        0xD87: "Cortex-A725",
        0xD88: "Cortex-A520AE",
        0xD89: "Cortex-A720AE",
        0xD8A: "C1-Nano",
        0xD8B: "C1-Pro",
        0xD8C: "C1-Ultra",
        0xD8E: "Neoverse-N3",
        0xD8F: "Cortex-A320",
        0xD90: "C1-Premium",
    },
    0x42: {0x516: "ThunderX2"},  # Broadcom
    0x43: {  # Cavium, now Marvell
        0x0A0: "ThunderX",
        0x0A1: "ThunderX-88XX",
        0x0A2: "ThunderX-81XX",
        0x0A3: "ThunderX-83XX",
        0x0AF: "ThunderX2-99xx",
        0x0B0: "OcteonTX2",
        0x0B1: "OcteonTX2-98XX",
        0x0B2: "OcteonTX2-96XX",
        0x0B3: "OcteonTX2-95XX",
        0x0B4: "OcteonTX2-95XXN",
        0x0B5: "OcteonTX2-95XXMM",
        0x0B6: "OcteonTX2-95XXO",
        0x0B8: "ThunderX3-T110",
    },
    0x46: {0x001: "A64FX", 0x003: "MONAKA"},  # Fujitsu
    0x48: {  # HiSilicon
        0xD01: "Kunpeng-920",
        0xD02: "Kunpeng-920",
        0xD03: "Kunpeng-920",
        0xD06: "Kunpeng-950",
        0xD22: "Kunpeng-920",
        0xD40: "Cortex-A76",
        0xD41: "Cortex-A77",
    },
    0x4E: {0x003: "Denver-2", 0x004: "Carmel", 0x010: "Olympus"},  # Nvidia
    0x51: {  # Qualcomm
        0x001: "Oryon",
        0x800: "Falkor-V1/Kryo",
        0x801: "Kryo-V2",
        0x802: "Kryo-3XX-Gold",
        0x803: "Kryo-3XX-Silver",
        0x804: "Kryo-4XX-Gold",
        0x805: "Kryo-4XX-Silver",
        0xC00: "Falkor",
        0xC01: "Saphira",
    },
    0x61: {  # Apple
        0x020: "Icestorm-A14",
        0x021: "Firestorm-A14",
        0x022: "Icestorm-M1",
        0x023: "Firestorm-M1",
        0x024: "Icestorm-M1-Pro",
        0x025: "Firestorm-M1-Pro",
        0x028: "Icestorm-M1-Max",
        0x029: "Firestorm-M1-Max",
        0x032: "Blizzard-M2",
        0x033: "Avalanche-M2",
        0x034: "Blizzard-M2-Pro",
        0x035: "Avalanche-M2-Pro",
        0x038: "Blizzard-M2-Max",
        0x039: "Avalanche-M2-Max",
    },
    0x6D: {0xD49: "Azure-Cobalt-100"},  # Microsoft; a Neoverse N2
    0x70: {  # Phytium
        0x303: "FTC310",
        0x660: "FTC660",
        0x661: "FTC661",
        0x662: "FTC662",
        0x663: "FTC663",
        0x664: "FTC664",
        0x862: "FTC862",
    },
    0xC0: {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a"},  # Ampere; Altra is Neoverse-N1
}
_IMPLEMENTER = re.compile(r"^CPU implementer\s*:\s*(0x[0-9a-f]+)$", re.MULTILINE)
_PART = re.compile(r"^CPU part\s*:\s*(0x[0-9a-f]+)$", re.MULTILINE)


def arm_cpu_name(cpuinfo: str) -> str | None:
    """Return the names of the kinds of cores in the text of /proc/cpuinfo, each once: "Cortex-A55 + Cortex-A76".

    A part that is not in the table is told by its numbers: "implementer 0x41 part 0xfff". None if the text names no
    implementer and part, as on other CPUs.
    """
    kinds = zip(_IMPLEMENTER.findall(cpuinfo), _PART.findall(cpuinfo), strict=True)
    names = [
        _NAMES.get(int(implementer, 16), {}).get(int(part, 16), f"implementer {implementer} part {part}")
        for implementer, part in kinds
    ]
    return " + ".join(dict.fromkeys(names)) or None
