//! What block drivers, file systems and clients of file servers say of storage that does not answer
//! or is lost. Texts are those of Linux 2.6.32 to 6.18: drivers/nvme/host, drivers/scsi,
//! drivers/ata, block, fs/ext4, fs/jbd2, fs/xfs, fs/btrfs, fs/nfs, fs/smb.

use crate::event::{LogEvent, LogEventKind};

/// Bytes of a device's name.
const LONGEST_NAME: usize = 64;
/// Devices that servers do not write to: floppy disks, optical ones, and files that a user mounts.
const OF_NO_SERVER: [&str; 3] = ["fd", "sr", "loop"];

/// Parts of a message in their order, the first at its beginning, and what comes before the device's
/// name: nothing where the name comes first.
type StorageWords = (&'static [&'static str], &'static str);

/// A request was given up after its time, 30 seconds as a rule, or its driver asks in vain.
const TIMEOUTS: &[StorageWords] = &[
    (&["nvme nvme", ": I/O ", " timeout, "], "nvme "),
    (&["nvme nvme", ": I/O tag ", " timeout"], "nvme "),
    (&["nvme nvme", ": queue ", ": timeout request "], "nvme "),
    (&["nvme nvme", ": starting error recovery"], "nvme "),
    (&["block nvme", ": no usable path - requeuing I/O"], "block "),
    (&["nvme nvme", ": controller is down; will reset"], "nvme "),
    (&["sd ", " timing out command, waited "], "["),
    (&["sd ", " task abort"], "["),
    (&["sd ", " attempting task abort"], "["),
    (&["sd ", " uas_eh_abort_handler "], "["),
    (&["sd ", " hostbyte=DID_TIME_OUT"], "["),
    (&["scsi ", " attempting task abort"], "scsi "),
    (&["ata", ": exception Emask ", " frozen"], ""),
    (&["mpt", ": attempting task abort"], ""),
    (&["aacraid: Host adapter abort request"], ""),
    (&["aacraid ", ": Host adapter reset request"], "aacraid "),
    (&["hpsa ", ": resetting "], "hpsa "),
    (&["lpfc ", " issued Device Reset"], "lpfc "),
    (&["qla2xxx ", " Abort command issued"], "qla2xxx "),
    (&["megaraid_sas ", " task abort"], "megaraid_sas "),
    (&["connection", ": ping timeout of "], ""),
    (&["session", ": session recovery timed out after "], ""),
    (&["mmc", ": Timeout waiting for hardware "], ""),
    (&["block nbd", ": Possible stuck request"], "block "),
    (&["block nbd", ": Connection timed out"], "block "),
    (&["drbd ", ": Remote failed to finish a request within "], "drbd "),
    (&["ceph: mds", " hung"], "ceph: "),
    (&["nfs: server ", " not responding"], "server "),
    (&["CIFS VFS: Server ", " has not responded in "], "Server "),
    (&["CIFS: VFS: ", " has not responded in "], "VFS: "),
];

/// From here on nothing is written any more.
const LOSSES: &[StorageWords] = &[
    (&["Aborting journal on device "], "device "),
    (&["EXT", "-fs (", "Remounting filesystem read-only"], "("),
    (&["EXT", "-fs error (device ", "ournal has aborted"], "device "),
    (&["XFS (", "hutting down filesystem"], "("),
    (&["XFS (", "Filesystem has been shut down"], "("),
    (&["BTRFS", "(device ", "forced readonly"], "device "),
    (&["F2FS-fs (", "Remounting filesystem read-only"], "("),
    (&["nvme nvme", ": Removing after probe failure"], "nvme "),
    (&["sd ", "Device offlined - not ready after error recovery"], "["),
    (&["sd ", "rejecting I/O to offline device"], "["),
];

/// One request failed: a bad sector, perhaps of a disk whose mirror has the data.
const ERRORS: &[StorageWords] = &[
    (&["I/O error, dev "], "dev "),
    (&["critical medium error, dev "], "dev "),
    (&["blk_update_request: ", " error, dev "], "dev "),
    (&["print_req_error: ", " error, dev "], "dev "),
    (&["end_request: ", " error, dev "], "dev "),
    (&["Buffer I/O error on dev "], "dev "),
    (&["Buffer I/O error on device "], "device "),
    (&["EXT", "-fs error (device "], "device "),
    (&["XFS (", " I/O error"], "("),
    (&["BTRFS", "error (device ", "IO failure"], "device "),
    (&["md/raid", ": Disk failure on "], "on "),
    (&["device-mapper: multipath: ", "Failing path "], "path "),
];

pub(super) fn parse_storage_event(message: &str) -> Option<LogEvent> {
    if message.starts_with("Future hung task reports are suppressed") {
        let what = "more tasks hung than the kernel reports (kernel.hung_task_warnings)";
        return Some(LogEvent::new(LogEventKind::HungTask, what));
    }
    // A user may shut down the file system of a device of his own.
    if message.contains("User initiated") || message.contains("critical target error") {
        return None;
    }
    let tables = [
        (LogEventKind::StorageTimeout, TIMEOUTS, "did not answer in time"),
        (LogEventKind::StorageLost, LOSSES, "failed: nothing more is written to it"),
        (LogEventKind::StorageError, ERRORS, "failed a request"),
    ];
    tables.into_iter().find_map(|(kind, table, what)| {
        let (_, before_name) = table.iter().find(|(words, _)| has_words(message, words))?;
        let device = parse_device(message, before_name)?;
        Some(LogEvent::new(kind, format!("{device} {what}, as the kernel says")))
    })
}

fn has_words(message: &str, words: &[&str]) -> bool {
    let Some((begin, rest)) = words.split_first() else { return false };
    let Some(mut left) = message.strip_prefix(begin) else { return false };
    rest.iter().all(|part| {
        let behind = left.split_once(part).map(|(_, behind)| behind);
        left = behind.unwrap_or_default();
        behind.is_some()
    })
}

/// The device's name, or its address where it has none; `None` where no server writes to it.
fn parse_device<'a>(message: &'a str, before_name: &str) -> Option<&'a str> {
    let named = message.split_once(before_name).map(|(_, rest)| rest);
    // `sd 0:0:0:0: [sda] tag#0 ...`, in some versions without the name.
    let rest = named.or_else(|| message.split_once(' ').map(|(_, rest)| rest))?;
    let end = rest.find([' ', ',', ')', ']']).unwrap_or(rest.len());
    let name = rest.get(..end)?.trim_end_matches([':', '.']);
    let name = name.get(..name.floor_char_boundary(LONGEST_NAME))?;
    let is_other = OF_NO_SERVER.iter().any(|kind| {
        name.strip_prefix(kind)
            .is_some_and(|number| number.starts_with(|one: char| one.is_ascii_digit()))
    });
    (!name.is_empty() && !is_other).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(messages: &[&str]) -> Vec<(Option<LogEventKind>, String)> {
        let told = messages.iter().map(|message| parse_storage_event(message));
        told.map(|event| match event {
            Some(event) => (Some(event.kind), event.what.split(' ').next().unwrap().to_owned()),
            None => (None, String::new()),
        })
        .collect()
    }

    /// Lines of hosts with Linux 3.10 to 6.8 whose disks, controllers and servers were gone.
    #[test]
    fn drivers_and_file_systems_are_understood() {
        use LogEventKind::{StorageError, StorageLost, StorageTimeout};
        for (message, kind, device) in [
            ("nvme nvme0: I/O 263 QID 2 timeout, aborting", StorageTimeout, "nvme0"),
            (
                "nvme nvme0: I/O tag 832 (3340) opcode 0x1 (I/O Cmd) QID 2 timeout, aborting \
                 req_op:WRITE(1) size:32768",
                StorageTimeout,
                "nvme0",
            ),
            ("sd 2:0:0:0: [sda] tag#12 timing out command, waited 180s", StorageTimeout, "sda"),
            ("sd 0:0:1:0: attempting task abort!scmd(0x0000000091a1)", StorageTimeout, "0:0:1:0"),
            ("sd 2:0:0:0: [sda] task abort on host 2, 00000000c5", StorageTimeout, "sda"),
            (
                "ata3.00: exception Emask 0x0 SAct 0x7fffffff SErr 0x0 action 0x6 frozen",
                StorageTimeout,
                "ata3.00",
            ),
            ("nfs: server nas1 not responding, still trying", StorageTimeout, "nas1"),
            (
                "connection1:0: ping timeout of 5 secs expired, recv timeout 5",
                StorageTimeout,
                "connection1:0",
            ),
            ("Aborting journal on device nvme0n1p1-8.", StorageLost, "nvme0n1p1-8"),
            ("EXT4-fs (sda2): Remounting filesystem read-only", StorageLost, "sda2"),
            ("XFS (dm-3): Log I/O Error Detected. Shutting down filesystem", StorageLost, "dm-3"),
            ("BTRFS info (device sdb1: state EA): forced readonly", StorageLost, "sdb1"),
            ("I/O error, dev nvme0n1, sector 131209936 op 0x0:(READ)", StorageError, "nvme0n1"),
            ("blk_update_request: I/O error, dev sdc, sector 512", StorageError, "sdc"),
            ("Buffer I/O error on device sdb1, logical block 1066386", StorageError, "sdb1"),
            (
                "Buffer I/O error on dev dm-0, logical block 7, async page read",
                StorageError,
                "dm-0",
            ),
            ("EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2", StorageError, "sda1"),
        ] {
            assert_eq!(kinds(&[message]), [(Some(kind), device.to_owned())], "{message}");
        }
    }

    #[test]
    fn what_is_no_trouble_of_a_servers_disk_is_none() {
        for message in [
            "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0",
            "Buffer I/O error on dev sr0, logical block 0, async page read",
            "nvme nvme0: 2/0/0 default/read/poll queues",
            "nfs: server nas1 OK",
            "ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)",
            "blk_update_request: critical target error, dev sda, sector 1 op 0x3:(DISCARD)",
            "XFS (dm-9): User initiated shutdown received. Shutting down filesystem",
            "audit: I/O error, dev sda",
        ] {
            assert_eq!(kinds(&[message]), [(None, String::new())], "{message}");
        }
    }
}
