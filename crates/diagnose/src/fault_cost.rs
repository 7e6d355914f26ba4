//! What it costs a process to touch memory for the first time, by page size.

use hugewise_model::{Bytes, PageSize};
/// What touching memory for the first time costs a process, in nanoseconds for each base page.
///
/// Measured on one virtual machine (Linux 6.18, 2 processors), one session at a time: 5 GiB of a
/// System V segment took 1.45 s on 4 KiB pages, 0.028 s on 2 MiB and 0.027 s on 1 GiB pages; other
/// shared memory on 4 KiB pages took 0.05 s for each GiB, as the kernel maps sixteen pages a fault
/// there and one in System V segments. On other hardware they scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCost {
    /// System V segments on base pages.
    pub system_v_ns: u64,
    /// Other shared memory on base pages.
    pub mapped_ns: u64,
    /// Any memory on huge pages.
    pub huge_ns: u64,
}

impl Default for FaultCost {
    fn default() -> Self {
        Self { system_v_ns: 1100, mapped_ns: 200, huge_ns: 21 }
    }
}

impl FaultCost {
    /// Seconds of a processor to touch so much for the first time, `system_v` in System V segments.
    pub fn fault_seconds(
        &self,
        amount: Bytes,
        base: PageSize,
        page: PageSize,
        system_v: bool,
    ) -> f64 {
        let each = match () {
            () if page > base => self.huge_ns,
            () if system_v => self.system_v_ns,
            () => self.mapped_ns,
        };
        Bytes(base.pages_for(amount).get()).saturating_mul(each).as_f64() / 1e9
    }
}

/// `1.4 s`, `21 ms`, `3.8 minutes`, `1.5 hours`.
pub fn render_duration(seconds: f64) -> String {
    match seconds * 1000.0 {
        thousandths if thousandths >= 7_200_000.0 => format!("{:.1} hours", seconds / 3600.0),
        thousandths if thousandths >= 120_000.0 => format!("{:.1} minutes", seconds / 60.0),
        thousandths if thousandths >= 1000.0 => format!("{seconds:.1} s"),
        thousandths if thousandths >= 10.0 => format!("{thousandths:.0} ms"),
        thousandths if thousandths >= 0.1 => format!("{thousandths:.1} ms"),
        _ => "< 0.1 ms".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_units_that_people_use() {
        let told = [0.000_01, 0.000_4, 0.021, 9.46, 226.6, 9000.0].map(render_duration);
        assert_eq!(told, ["< 0.1 ms", "0.4 ms", "21 ms", "9.5 s", "3.8 minutes", "2.5 hours"]);
    }

    #[test]
    fn what_was_measured_comes_out_again() {
        let five = Bytes::from_gib(5);
        let value_of = |page, system_v| {
            FaultCost::default().fault_seconds(five, PageSize::KIB_4, page, system_v)
        };
        // 1.45 s, 0.028 s, and 0.05 s for each GiB of other memory.
        assert!((value_of(PageSize::KIB_4, true) - 1.45).abs() < 0.02);
        assert!((value_of(PageSize::MIB_2, true) - 0.028).abs() < 0.001);
        assert!((value_of(PageSize::KIB_4, false) - 0.25).abs() < 0.02);
    }
}
