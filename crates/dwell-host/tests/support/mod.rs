//! Made machines: trees of the files that a kernel would show, with known truths.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::path::Path;

use dwell_host::Root;

/// A made tree of `/proc` and `/sys`.
pub struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn root(&self) -> Root {
        Root::at(self.dir.path())
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // In place: a file that is kept open must show the new text, as a file of the kernel does.
        fs::write(path, text).unwrap();
        self
    }

    /// A processor with its caches: 48 KiB + 32 KiB of level 1 for each core, 2 MiB of level 2, 12 MiB for `package`.
    fn cpu(&self, cpu: u32, package: u32, siblings: &str, package_cpus: &str) {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        self.write(&format!("{folder}/topology/physical_package_id"), &format!("{package}\n"));
        self.write(&format!("{folder}/topology/core_cpus_list"), &format!("{siblings}\n"));
        let caches = [
            ("1", "Data", "48K", siblings),
            ("1", "Instruction", "32K", siblings),
            ("2", "Unified", "2048K", siblings),
            ("3", "Unified", "12288K", package_cpus),
        ];
        for (index, (level, kind, size, shared)) in caches.into_iter().enumerate() {
            let cache = format!("{folder}/cache/index{index}");
            self.write(&format!("{cache}/level"), &format!("{level}\n"));
            self.write(&format!("{cache}/type"), &format!("{kind}\n"));
            self.write(&format!("{cache}/size"), &format!("{size}\n"));
            self.write(&format!("{cache}/shared_cpu_list"), &format!("{shared}\n"));
        }
    }
}

/// Two sockets with two cores of two threads each, on battery, with every sensor that Intel has.
pub fn intel() -> Tree {
    let tree = Tree::new();
    let cpuinfo =
        "processor\t: 0\nmodel name\t: Intel(R) Core(TM) i7-1260P\ncpu MHz\t\t: 2100.000\nflags\t\t: fpu vme sse2\n";
    tree.write("proc/cpuinfo", &cpuinfo.repeat(8));
    for cpu in 0..8 {
        let package = cpu / 4;
        let core = cpu % 4 / 2 * 2 + package * 4;
        tree.cpu(cpu, package, &format!("{core}-{}", core + 1), if package == 0 { "0-3" } else { "4-7" });
        for kind in ["core", "package"] {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{kind}_throttle_count");
            tree.write(&path, "7\n");
        }
        let policy = format!("sys/devices/system/cpu/cpufreq/policy{cpu}");
        tree.write(&format!("{policy}/scaling_cur_freq"), "1000000\n");
        tree.write(&format!("{policy}/cpuinfo_min_freq"), "400000\n");
        tree.write(&format!("{policy}/cpuinfo_max_freq"), if cpu == 0 { "4700000\n" } else { "3400000\n" });
        tree.write(&format!("{policy}/scaling_min_freq"), "800000\n");
        tree.write(&format!("{policy}/scaling_max_freq"), "3000000\n");
        tree.write(&format!("{policy}/scaling_governor"), if cpu == 7 { "performance\n" } else { "powersave\n" });
        tree.write(&format!("{policy}/scaling_driver"), "intel_pstate\n");
    }
    tree.write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
    tree.write("sys/devices/system/node/node0/cpulist", "0-3\n");
    tree.write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       8000000 kB\nNode 0 MemFree: 1 kB\n");
    tree.write("sys/devices/system/node/node1/cpulist", "4-7\n");
    tree.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       8388608 kB\n");
    tree.write(
        "proc/meminfo",
        "MemTotal:       16388608 kB\nMemAvailable:    4000000 kB\nSwapTotal:       2097148 kB\n\
         HugePages_Total:       3\nHugepagesize:       2048 kB\n",
    );
    tree.write("proc/stat", "cpu  1000 0 0 1000 0 0 0 0 0 0\nprocs_running 3\n");
    tree.write("proc/loadavg", "0.52 1.25 2.00 3/400 12345\n");
    for name in ["cpu", "memory", "io"] {
        let text =
            "some avg10=1.50 avg60=0.00 avg300=0.00 total=100\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=50\n";
        tree.write(&format!("proc/pressure/{name}"), text);
    }
    // Other sensors come first and are hotter; they are not the processor's.
    hwmon(&tree, 0, "nvme", &[("Composite", "91000")]);
    hwmon(&tree, 1, "coretemp", &[("Package id 0", "50000"), ("Core 0", "88000"), ("Package id 1", "45000")]);
    tree.write("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n");
    tree.write("sys/class/thermal/thermal_zone0/temp", "77000\n");
    rapl(&tree, "intel-rapl:0", "package-0", "1000000", "5000000");
    rapl(&tree, "intel-rapl:0:0", "dram", "100", "5000000");
    rapl(&tree, "intel-rapl:0:1", "core", "999", "5000000");
    rapl(&tree, "intel-rapl:1", "package-1", "4900000", "5000000");
    rapl(&tree, "intel-rapl:2", "psys", "1", "5000000");
    rapl(&tree, "intel-rapl-mmio:0", "package-0", "1000000", "5000000");
    tree.write("sys/class/power_supply/AC/type", "Mains\n");
    tree.write("sys/class/power_supply/AC/online", "0\n");
    tree.write("sys/class/power_supply/BAT0/type", "Battery\n");
    tree.write("sys/class/power_supply/BAT0/status", "Discharging\n");
    tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree.write("proc/sys/kernel/perf_event_paranoid", "4\n");
    tree.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    tree.write("proc/sys/kernel/hostname", "thinkpad\n");
    tree.write("etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n");
    tree.write("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n");
    tree.write("sys/devices/system/cpu/vulnerabilities/spectre_v1", "Mitigation: usercopy barriers\n");
    tree.write("sys/class/drm/card1/device/vendor", "0x8086\n");
    tree.write("sys/class/drm/card1/device/device", "0x46a6\n");
    tree.write("sys/class/drm/card1/device/uevent", "DRIVER=i915\nPCI_CLASS=30000\n");
    tree.write("sys/class/drm/card1-eDP-1/status", "connected\n");
    tree.write("proc/1/cgroup", "0::/init.scope\n");
    tree.write("sys/class/dmi/id/sys_vendor", "LENOVO\n");
    tree
}

/// A desktop of AMD: one socket, energy but no throttle counters, a graphics card of its own.
pub fn amd() -> Tree {
    let tree = Tree::new();
    let cpuinfo = "processor\t: 0\nmodel name\t: AMD Ryzen 9 7950X\nflags\t\t: fpu sse2\n";
    tree.write("proc/cpuinfo", cpuinfo);
    for cpu in 0..2 {
        tree.cpu(cpu, 0, &cpu.to_string(), "0-1");
    }
    tree.write("sys/devices/system/cpu/cpufreq/boost", "1\n");
    hwmon(&tree, 0, "k10temp", &[("Tctl", "61250"), ("Tccd1", "70000")]);
    rapl(&tree, "intel-rapl:0", "package-0", "10", "65532610987");
    tree.write("sys/class/drm/card0/device/vendor", "0x1002\n");
    tree.write("sys/class/drm/card0/device/device", "0x744c\n");
    tree.write("sys/class/drm/card0/device/uevent", "DRIVER=amdgpu\n");
    tree.write("sys/class/drm/card0/device/mem_info_vram_total", "25753026560\n");
    tree
}

/// A board with an ARM processor.
pub fn arm() -> Tree {
    let tree = Tree::new();
    tree.write("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd\nModel\t\t: Raspberry Pi 5\n");
    tree.cpu(0, 0, "0", "0");
    tree.write("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
    tree.write("sys/class/thermal/thermal_zone0/temp", "47200\n");
    tree.write("sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "2400000\n");
    tree
}

fn hwmon(tree: &Tree, device: u32, driver: &str, inputs: &[(&str, &str)]) {
    let folder = format!("sys/class/hwmon/hwmon{device}");
    tree.write(&format!("{folder}/name"), &format!("{driver}\n"));
    for (index, (label, millidegrees)) in inputs.iter().enumerate() {
        tree.write(&format!("{folder}/temp{}_label", index + 1), &format!("{label}\n"));
        tree.write(&format!("{folder}/temp{}_input", index + 1), &format!("{millidegrees}\n"));
    }
}

fn rapl(tree: &Tree, folder: &str, name: &str, energy_uj: &str, range_uj: &str) {
    let folder = format!("sys/class/powercap/{folder}");
    tree.write(&format!("{folder}/name"), &format!("{name}\n"));
    tree.write(&format!("{folder}/energy_uj"), &format!("{energy_uj}\n"));
    tree.write(&format!("{folder}/max_energy_range_uj"), &format!("{range_uj}\n"));
}
