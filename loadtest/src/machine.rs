//! What a report says of the machine.

use std::collections::BTreeMap;
use std::path::Path;

use procfs::prelude::Current;
use procfs::process::Process;
use procfs::{CpuInfo, Meminfo};
use rowdrive::sha256::sha256;
use serde_json::{Value, json};

/// As the system tells it; empty where it does not. `folder`: where the stores are.
pub fn describe(folder: &Path) -> Value {
    let cpu = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
    let memory = Meminfo::current().map(|info| info.mem_total).unwrap_or_default();
    let kernel = procfs::sys::kernel::Version::current().map(|v| format!("{}.{}.{}", v.major, v.minor, v.patch));
    json!({
        "cpu": cpu.unwrap_or_default(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_bytes": memory,
        "system": format!("{} {} {}", std::env::consts::OS, kernel.unwrap_or_default(), std::env::consts::ARCH),
        "file_system": file_system(folder).unwrap_or_default(),
    })
}

/// With the first digits of this program's digest, which tells builds of one version apart.
pub fn versions() -> std::io::Result<BTreeMap<String, String>> {
    let digest = sha256(std::fs::read("/proc/self/exe")?);
    let program = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let versions = [("rowdrive", env!("CARGO_PKG_VERSION").into()), ("sqlite", rusqlite::version().into())];
    Ok(versions.into_iter().chain([("loadtest", program)]).map(|(of, version)| (of.into(), version)).collect())
}

/// The kind of the file system that holds a folder: that of the longest mount point above it.
pub fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = Process::myself().ok()?.mountinfo().ok()?;
    let above = mounts.into_iter().filter(|mount| folder.starts_with(&mount.mount_point));
    above.max_by_key(|mount| mount.mount_point.as_os_str().len()).map(|mount| mount.fs_type)
}
