//! File descriptors: raises their limit, and reserves those that the store needs from clients.

use rowdrive::http::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are neither for connections nor for tables: logs, folders, the runtime.
const OTHERS: usize = 64;

/// Raises the limit of this process as far as the system allows, and returns it.
pub fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// The number of connections that the limit allows: each needs a socket and may open a file. A third of all descriptors
/// is for the store.
pub fn connections(limit: usize) -> usize {
    (limit.saturating_sub(limit / 3 + OTHERS) / 2).max(1)
}

/// Lowers the limits of connections to what the limit of descriptors allows.
pub fn bound(limits: Limits, limit: usize) -> Limits {
    let most = connections(limit);
    if limits.connections > most {
        tracing::warn!(
            asked = limits.connections,
            given = most,
            limit,
            "fewer connections: the limit of open files is low"
        );
    }
    Limits {
        connections: limits.connections.min(most),
        connections_of_address: limits.connections_of_address.min(most),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_store() {
        for limit in [0, 20, 64, 256, 300, 1_024, 65_536, 1 << 20, usize::MAX] {
            let connections = connections(limit);
            assert!(connections >= 1);
            assert!(limit < 256 || 2 * connections + limit / 3 + OTHERS <= limit, "{limit}: {connections}");
        }
        assert!(connections(16_384) > 4_096);
        let few = bound(Limits { connections: 4_096, connections_of_address: 50, ..Limits::default() }, 300);
        assert_eq!((few.connections, few.connections_of_address), (68, 50));
    }
}
