//! How many connections the server may have: what it is asked for, or as many as file descriptors and memory allow.

use rowdrive::http::Limits;

/// Descriptors that are neither for connections nor for tables: logs, folders, the runtime.
const OTHERS: usize = 64;
/// Bytes of `--memory` for each connection.
const BYTES: usize = 64 << 10;

/// The number of connections that the limit of descriptors allows: each needs a socket and may open a file. A third of all
/// descriptors is for the store.
fn of_descriptors(limit: usize) -> usize {
    (limit.saturating_sub(limit / 3 + OTHERS) / 2).max(1)
}

/// The number of connections that so much memory allows.
fn of_memory(memory: usize) -> usize {
    (memory / BYTES).max(1)
}

/// Three quarters: what one address has if nothing else is asked for, so that it does not shut out all others.
fn of_address(connections: usize) -> usize {
    (connections - connections / 4).max(1)
}

/// The limits with fewer connections, if there are not enough descriptors, or not enough memory. `of_one`: connections of one
/// address.
pub fn bound(limits: Limits, of_one: Option<usize>, descriptors: usize, memory: usize) -> Limits {
    let asked = limits.connections;
    let connections = asked.min(of_descriptors(descriptors)).min(of_memory(memory));
    if connections < asked {
        tracing::warn!(asked, connections, descriptors, memory, "fewer connections: few open files, or little memory");
    }
    let connections_of_address = of_one.unwrap_or(of_address(connections)).min(connections);
    Limits { connections, connections_of_address, ..limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 1 << 40;

    fn given(asked: usize, of_one: Option<usize>, descriptors: usize, memory: usize) -> (usize, usize) {
        let limits = Limits { connections: asked, ..Limits::default() };
        let bound = bound(limits, of_one, descriptors, memory);
        (bound.connections, bound.connections_of_address)
    }

    #[test]
    fn connections_leave_descriptors_for_the_store() {
        for limit in [0, 20, 64, 256, 300, 1_024, 65_536, 1 << 20, usize::MAX] {
            let connections = of_descriptors(limit);
            assert!(connections >= 1);
            assert!(limit < 256 || 2 * connections + limit / 3 + OTHERS <= limit, "{limit}: {connections}");
        }
        assert!(of_descriptors(16_384) > 4_096);
        assert_eq!(given(4_096, Some(50), 300, MANY), (68, 50));
        assert_eq!(given(4_096, Some(100), 300, MANY), (68, 68));
    }

    #[test]
    fn little_memory_allows_few_connections() {
        assert_eq!(given(4_096, Some(50), MANY, 256 << 20), (4_096, 50), "as many as without a limit");
        assert_eq!(given(4_096, Some(4_096), MANY, 32 << 20), (512, 512));
        assert_eq!(given(10, Some(50), MANY, 32 << 20), (10, 10));
        assert_eq!(given(10, Some(50), MANY, 0), (1, 1));
    }

    #[test]
    fn one_address_leaves_a_quarter_to_others() {
        for (asked, of_one) in [(4_096, 3_072), (10, 8), (3, 3), (1, 1)] {
            assert_eq!(given(asked, None, MANY, MANY), (asked, of_one));
        }
        assert_eq!(given(4_096, None, MANY, 32 << 20), (512, 384));
    }
}
