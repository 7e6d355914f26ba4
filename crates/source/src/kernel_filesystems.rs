//! The kernel's own file systems, which hold no server's file.

use std::os::fd::OwnedFd;

use hugewise_model::Observed;
use rustix::fs::{FsWord, fstatfs};
use rustix::io::Errno;

/// Reading a file in them may consume something, and their links lead anywhere. From
/// linux/magic.h: proc, sysfs, debugfs, tracefs, configfs, securityfs, cgroup, cgroup2, bpf,
/// efivarfs, pstore, selinuxfs, binfmt_misc, devpts, mqueue, fusectl, nsfs.
const KERNELS: [FsWord; 17] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x6265_6570,
    0x7363_6673,
    0x0027_e0eb,
    0x6367_7270,
    0xcafe_4a11,
    0xde5e_81e4,
    0x6165_676c,
    0xf97c_ff8c,
    0x4249_4e4d,
    0x1cd1,
    0x1980_0202,
    0x6573_5543,
    0x6e73_6673,
];

pub(super) fn is_kernels(file: &OwnedFd) -> Result<bool, Errno> {
    Ok(KERNELS.contains(&fstatfs(file)?.f_type))
}

pub(super) fn on_kernel_filesystem<T>() -> Observed<T> {
    Observed::Malformed("it is on one of the kernel's own file systems and was not read".into())
}
