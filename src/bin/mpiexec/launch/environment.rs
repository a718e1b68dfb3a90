//! Which of the head's environment travels to another machine: all of it, but for what describes the machine, the terminal or
//! the process that the head itself is. There, a variable that does not travel is what the launcher command made it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Names that stay.
const NAMES: [&str; 20] = [
    "_",
    "DISPLAY",
    "HOST",
    "HOSTNAME",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "OLDPWD",
    "SHLVL",
    "SLURMD_NODENAME",
    "SLURM_GTIDS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_TASK_PID",
    "SLURM_TOPOLOGY_ADDR",
    "WAYLAND_DISPLAY",
    "WINDOWID",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];
/// Names with these beginnings stay.
const BEGINNINGS: [&str; 12] = [
    "DBUS_",
    "HYDI_",
    "HYDRA_",
    "PMIX_",
    "PMI_",
    "PRTE_",
    "SLURM_CPU_BIND",
    "SLURM_SRUN_",
    "SLURM_STEP",
    "SSH_",
    "WEFT_LAUNCH_",
    "XDG_SESSION_",
];

/// Whether a variable travels.
fn travels(name: &OsStr) -> bool {
    let name = name.as_bytes();
    !NAMES.iter().any(|own| own.as_bytes() == name)
        && !BEGINNINGS.iter().any(|begin| name.starts_with(begin.as_bytes()))
}

/// Those variables of this process that travel.
pub fn travelling() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| travels(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_the_heads_machine_stays() {
        for name in [
            "HOSTNAME",
            "SSH_CONNECTION",
            "PMI_FD",
            "SLURM_STEP_ID",
            "WEFT_LAUNCH_PIDS",
            "DISPLAY",
        ] {
            assert!(!travels(OsStr::new(name)), "{name}");
        }
        for name in [
            "PATH",
            "LD_LIBRARY_PATH",
            "WEFT_PROVIDER",
            "SLURM_JOB_ID",
            "HOSTNAMES",
            "OMP_NUM_THREADS",
        ] {
            assert!(travels(OsStr::new(name)), "{name}");
        }
    }
}
