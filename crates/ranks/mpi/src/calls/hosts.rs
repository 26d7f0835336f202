//! Which ranks run on one host.

/// Numbers of hosts by rank, counted as they first come.
pub(crate) fn numbered(hosts: &[Vec<u8>]) -> Vec<usize> {
    let mut known: Vec<&[u8]> = Vec::new();
    let mut numbers = Vec::with_capacity(hosts.len());
    for host in hosts {
        let number = known.iter().position(|other| other == host).unwrap_or(known.len());
        if number == known.len() {
            known.push(host);
        }
        numbers.push(number);
    }
    numbers
}

/// The same, where the ranks of host `number` cannot share memory after all: each is a host of its own, behind all others.
pub(crate) fn parted(hosts: &[usize], is_parted: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut next = hosts.iter().max().map_or(0, |last| last + 1);
    let number = |host: &usize| {
        if !is_parted(*host) {
            return *host;
        }
        next += 1;
        next - 1
    };
    hosts.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbered_as_they_come() {
        let hosts = ["b", "a", "b", "c", "a"].map(|host| host.as_bytes().to_vec());
        assert_eq!(numbered(&hosts), [0, 1, 0, 2, 1]);
    }

    #[test]
    fn ranks_of_a_host_that_share_no_memory_are_hosts_of_their_own() {
        assert_eq!(parted(&[0, 1, 0, 1], |host| host == 0), [2, 1, 3, 1]);
        assert_eq!(parted(&[0, 0], |_| false), [0, 0]);
    }
}
