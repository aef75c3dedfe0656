//! Available memory on Linux: `/proc/meminfo`, and the control groups of the process, of either
//! version.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of one version of control groups.
struct Version {
    /// The start of its line in `/proc/self/cgroup`, up to the path of the process's group.
    line: &'static str,
    /// The mount point of the groups.
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The lines of `memory.stat` that count pages the kernel can reclaim.
    reclaimable: [&'static str; 3],
}

const VERSIONS: [Version; 2] = [
    Version {
        line: "0::",
        mount: "sys/fs/cgroup",
        limit: "memory.max",
        usage: "memory.current",
        reclaimable: ["inactive_file", "active_file", "slab_reclaimable"],
    },
    Version {
        line: ":memory:",
        mount: "sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        usage: "memory.usage_in_bytes",
        reclaimable: ["total_inactive_file", "total_active_file", "total_slab_reclaimable"],
    },
];

/// Returns the bytes available to this process, on a system whose files begin at `root`.
pub(super) fn available(root: &Path) -> Option<u64> {
    let groups = VERSIONS.iter().flat_map(|version| version.groups(root));
    machine(root).into_iter().chain(groups).min()
}

fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

impl Version {
    /// Returns the bytes available to the process's group and to each of its ancestors.
    fn groups(&self, root: &Path) -> Vec<u64> {
        let mount = root.join(self.mount);
        let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let own =
            own.lines().find_map(|line| line.split_once(self.line)).map_or("", |(_, path)| path);
        // In a container the mount may hold only the container's own group, under another path.
        let mut folder: PathBuf = mount.join(own.trim_start_matches('/'));
        let mut left = Vec::new();
        while folder.starts_with(&mount) {
            left.extend(self.group(&folder));
            if !folder.pop() {
                break;
            }
        }
        left
    }

    fn group(&self, folder: &Path) -> Option<u64> {
        let number =
            |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let (limit, usage) = (number(self.limit)?, number(self.usage)?);
        let statistics = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let counted = statistics.lines().filter_map(|line| line.split_once(' '));
        let reclaimable = counted.filter(|(name, _)| self.reclaimable.contains(name));
        let reclaimable: u64 =
            reclaimable.filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok()).sum();
        Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary copy of a system's files, removed at the end.
    struct System(PathBuf);

    impl System {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root =
                std::env::temp_dir().join(format!("aleatron-memory-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder).unwrap();
                }
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for System {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal: 999 kB\nMemAvailable:     64 kB\n");

    #[test]
    fn machine_without_groups_reports_its_available_memory() {
        let system = System::new("machine", &[MACHINE]);
        assert_eq!(available(&system.0), Some(64 << 10));
        assert_eq!(available(&system.0.join("nowhere")), None);
    }

    #[test]
    fn group_reports_its_limit_less_unreclaimable_memory() {
        let stat = "anon 700\nfile 999\ninactive_file 250\nactive_file 40\nslab_reclaimable 10\nslab 5000\n";
        let files = [
            MACHINE,
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "2000\n"),
            ("sys/fs/cgroup/memory.current", "1000\n"),
            ("sys/fs/cgroup/memory.stat", stat),
        ];
        let system = System::new("flat", &files);
        assert_eq!(available(&system.0), Some(2000 - (1000 - 300)));
    }

    #[test]
    fn nested_groups_report_the_least() {
        let files = [
            MACHINE,
            ("proc/self/cgroup", "0::/outer/own\n"),
            ("sys/fs/cgroup/outer/memory.max", "5000\n"),
            ("sys/fs/cgroup/outer/memory.current", "4500\n"),
            ("sys/fs/cgroup/outer/own/memory.max", "3000\n"),
            ("sys/fs/cgroup/outer/own/memory.current", "2400\n"),
            ("sys/fs/cgroup/outer/other/memory.max", "10\n"),
            ("sys/fs/cgroup/outer/other/memory.current", "10\n"),
        ];
        let system = System::new("nested", &files);
        assert_eq!(available(&system.0), Some(500));
        // One group without a limit, and one that exceeds it.
        fs::write(system.0.join("sys/fs/cgroup/outer/memory.max"), "max\n").unwrap();
        assert_eq!(available(&system.0), Some(600));
        fs::write(system.0.join("sys/fs/cgroup/outer/own/memory.max"), "2399\n").unwrap();
        assert_eq!(available(&system.0), Some(0));
    }

    #[test]
    fn groups_of_version_1_are_read() {
        let files = [
            MACHINE,
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/abc\n"),
            // In the container the group is at the mount itself.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "8000\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n"),
        ];
        let system = System::new("first", &files);
        assert_eq!(available(&system.0), Some(1500));
    }
}
