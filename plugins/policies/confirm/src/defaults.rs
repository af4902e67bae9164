//! The default expressions: commands that can't be undone, that reach beyond the working directory,
//! or whose effects others see.

/// Expressions with their reasons.
pub const ASK: &[(&str, &str)] = &[
    (
        r"\brm\s+(?:-\S+\s+)*(?:-[a-zA-Z]*[rR]|--recursive\b)",
        DIRECTORIES,
    ),
    (
        r"\brm\s+(?:-\S+\s+)*(?:-[a-zA-Z]*f|--force\b)",
        "it deletes without asking",
    ),
    (
        r"\bfind\b[^\n;|]*\s-delete\b",
        "it deletes whatever it finds",
    ),
    (r"\bshred\b", "it makes files unrecoverable"),
    (r"\btruncate\s+-", "it cuts files"),
    (
        r"\bgit\s+(?:-\S+\s+(?:[^\s-]\S*\s+)?)*push\b",
        "it publishes commits",
    ),
    (
        r"\bgit\s+(?:-\S+\s+(?:[^\s-]\S*\s+)?)*reset\s+[^\n;|&]*--hard\b",
        "it discards changes that are not committed",
    ),
    (
        r"\bgit\s+(?:-\S+\s+(?:[^\s-]\S*\s+)?)*clean\s+[^\n;|&]*-[a-zA-Z]*f",
        "it deletes files that git does not track",
    ),
    (
        r"\bcurl\b[^\n;]*\|\s*(?:sudo\s+)?(?:[\w/.-]*/)?(?:ba|z|da|k|fi)?sh\b",
        SCRIPT,
    ),
    (
        r"\bwget\b[^\n;]*\|\s*(?:sudo\s+)?(?:[\w/.-]*/)?(?:ba|z|da|k|fi)?sh\b",
        SCRIPT,
    ),
    (
        r"\b(?:bash|sh|zsh|eval|source)\b[^\n]*(?:<\(|\$\(|`)\s*curl\b",
        SCRIPT,
    ),
    (
        r"\b(?:bash|sh|zsh|eval|source)\b[^\n]*(?:<\(|\$\(|`)\s*wget\b",
        SCRIPT,
    ),
    (r"\bsudo\b", RIGHTS),
    (r"\bdoas\b", RIGHTS),
    (r"\bpkexec\b", RIGHTS),
    (r"(?:^|[\s;&|(])su(?:\s|$)", RIGHTS),
    (r"\bdd\b[^\n;|&]*\bof=", "it writes over a file or a device"),
    (r"\bmkfs\b", "it formats a file system"),
    (r"\bs?fdisk\b", PARTITIONS),
    (r"\bparted\b", PARTITIONS),
    (r"\bwipefs\b", PARTITIONS),
    (
        r">\s*/dev/(?:sd|hd|vd|nvme|mmcblk|disk)",
        "it writes to a disk",
    ),
    (
        r"\bchmod\s+(?:-\S+\s+)*(?:-[a-zA-Z]*R|--recursive\b)",
        ALL_RIGHTS,
    ),
    (
        r"\bchown\s+(?:-\S+\s+)*(?:-[a-zA-Z]*R|--recursive\b)",
        ALL_RIGHTS,
    ),
    (
        r"\bchgrp\s+(?:-\S+\s+)*(?:-[a-zA-Z]*R|--recursive\b)",
        ALL_RIGHTS,
    ),
    (r"\bshutdown(?:\s+(?:-|\+|now\b)|\s*$)", MACHINE),
    (r"\breboot(?:\s+-|\s*$)", MACHINE),
    (r"\bpoweroff(?:\s+-|\s*$)", MACHINE),
    (r"\bhalt(?:\s+-|\s*$)", MACHINE),
    (
        r"\bsystemctl\s+(?:-\S+\s+)*(?:start|stop|restart|enable|disable|mask|reboot|poweroff)\b",
        "it changes the services of the machine",
    ),
    (r"\bkill\s+(?:-\S+\s+)+-1\b", PROCESSES),
    (r"\bkillall\b", PROCESSES),
    (r"\bpkill\b", PROCESSES),
    (
        r"\bcrontab\s+(?:-[er]\b|[^-\s])",
        "it changes scheduled commands",
    ),
    (r"\b(?:npm|yarn|pnpm|cargo)\s+publish\b", PACKAGE),
    (r"\btwine\s+upload\b", PACKAGE),
    (r"\bgem\s+push\b", PACKAGE),
    (
        r"\bdocker\s+(?:system|volume|image|container)\s+(?:prune|rm)\b",
        "it removes containers, images or data",
    ),
    (r"\bssh\s+\S", ELSEWHERE),
    (r"\bscp\s+\S", ELSEWHERE),
    (r"\bsftp\s+\S", ELSEWHERE),
    (
        r"\brsync\b[^\n;|&]*--delete",
        "it deletes what the source does not have",
    ),
    (r"\bDROP\s+(?:TABLE|DATABASE|SCHEMA)\b", DATABASE),
    (r"\bdrop\s+(?:table|database|schema)\b", DATABASE),
    (r"\bTRUNCATE\s+TABLE\b", DATABASE),
    (r"\btruncate\s+table\b", DATABASE),
    (
        r":\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\};",
        "it is a fork bomb",
    ),
];

const DIRECTORIES: &str = "it deletes whole directories";
const SCRIPT: &str = "it runs a script from the network";
const RIGHTS: &str = "it runs with the rights of another user";
const ALL_RIGHTS: &str = "it changes the rights of whole directories";
const PARTITIONS: &str = "it changes the partitions of a disk";
const MACHINE: &str = "it stops the machine";
const PROCESSES: &str = "it ends processes of others";
const PACKAGE: &str = "it publishes a package";
const ELSEWHERE: &str = "it reaches another machine";
const DATABASE: &str = "it deletes data of a database";
