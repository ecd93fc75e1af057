//! How many connections the memory allows.

use rowdrive::http::Limits;

/// Bytes of `--memory` for each connection. One whose client does its worst takes half a mebibyte, beside that memory.
const OF_CONNECTION: usize = 256 << 10;

/// Lowers the limits of connections to what the memory allows.
pub fn bound(limits: Limits, memory: usize) -> Limits {
    let most = (memory / OF_CONNECTION).max(1);
    if limits.connections > most {
        tracing::info!(asked = limits.connections, given = most, memory, "fewer connections: there is little memory");
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
    fn little_memory_allows_few_connections() {
        let given = |connections, memory| {
            let bound = bound(Limits { connections, connections_of_address: 50, ..Limits::default() }, memory);
            (bound.connections, bound.connections_of_address)
        };
        assert_eq!(given(4_096, 1 << 30), (4_096, 50), "as many as without a limit");
        assert_eq!(given(4_096, 32 << 20), (128, 50));
        assert_eq!(given(4_096, 8 << 20), (32, 32));
        assert_eq!(given(10, 32 << 20), (10, 50));
        assert_eq!(given(10, 0), (1, 1));
    }
}
