//! The machine that a rank runs on, and the processor time it took.

use std::fs;

use forebay_workload::HostFacts;

/// What is known of this machine.
pub(crate) fn facts() -> HostFacts {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let kibibytes = value(&meminfo, "MemTotal").and_then(|text| text.split_whitespace().next()?.parse().ok());
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    HostFacts {
        name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        processor: value(&cpuinfo, "model name").unwrap_or_default(),
        cpu_count: u32::try_from(processors).unwrap_or(u32::MAX),
        memory_bytes: kibibytes.unwrap_or(0u64) << 10,
    }
}

/// Ticks of the clock in which the system counts the time of children.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of processor time of this process and of those of its children that have ended.
pub(crate) fn cpu_s() -> f64 {
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let own_s = own.tv_sec as f64 + own.tv_nsec as f64 / 1e9;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in brackets, may hold spaces.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let fields: Vec<f64> = fields.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
    let children = fields.get(13).unwrap_or(&0.0) + fields.get(14).unwrap_or(&0.0);
    own_s + children / TICKS_PER_SECOND
}
