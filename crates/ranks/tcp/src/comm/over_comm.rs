//! TCP between ranks that have found each other by another communicator, such as MPI's.

use std::{
    cell::RefCell,
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use forebay_process::{Error, Result};
use forebay_store::{Comm, JobName, Wait, agree};

use crate::{
    comm::{
        rendezvous::Rendezvous,
        tcp_comm::{ReadyRank, TcpComm, TcpListen, TcpOptions},
    },
    connection::sockets::address_toward,
    handshake::secret::random_bytes,
};

/// A port of a host, where only the way to it is looked for.
const ANY_PORT: u16 = 9;

/// A communicator over TCP of the ranks of `comm`; a file with the secret of the job may be named. Collective: a rank that cannot
/// take part is an error on all.
pub fn tcp_over(comm: &dyn Comm, secret_file: Option<PathBuf>, wait: &Wait<'_>) -> Result<TcpComm> {
    // Another one of the same job has another name.
    let nonce = comm.broadcast(0, agree(comm, random_bytes::<8>(), wait)?.to_vec(), wait)?;
    let job = JobName::new(nonce.iter().fold("mpi-".to_owned(), |name, byte| name + &format!("{byte:02x}")));
    let address = own_address(comm, wait)?;
    let options = TcpOptions {
        rank: comm.rank(),
        size: comm.size(),
        job,
        listen: TcpListen::On(address),
        secret_file,
        host: None,
    };
    let ready = agree(comm, ReadyRank::new(&options), wait)?;
    TcpComm::connect(&options, ready, &CommRendezvous::new(comm), wait)
}

/// The address of this host by which ranks of other hosts reach it. Collective: where one has none, it is an error on all.
fn own_address(comm: &dyn Comm, wait: &Wait<'_>) -> Result<IpAddr> {
    let names = comm.all_gather(host_name().into_bytes(), wait)?;
    let other = (0..comm.size()).find(|rank| comm.host_of(*rank) != comm.host_of(comm.rank()));
    let found = match other {
        None => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        // The name of another host: one's own often stands for an address that leads nowhere else.
        Some(other) => address_toward(&String::from_utf8_lossy(&names[other]), ANY_PORT),
    };
    agree(comm, found, wait)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Values that rank 0 sets, broadcast to all: the others get what they look for out of the next broadcasts.
struct CommRendezvous<'a> {
    comm: &'a dyn Comm,
    heard: RefCell<HashMap<String, Vec<u8>>>,
}

impl<'a> CommRendezvous<'a> {
    fn new(comm: &'a dyn Comm) -> Self {
        Self { comm, heard: RefCell::default() }
    }
}

impl Rendezvous for CommRendezvous<'_> {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let message = [&(key.len() as u64).to_le_bytes(), key.as_bytes(), value].concat();
        self.comm.broadcast(0, message, &Wait::while_ranks_live()).map(drop)
    }

    fn get(&self, key: &str, wait: &Wait<'_>) -> Result<Vec<u8>> {
        loop {
            if let Some(value) = self.heard.borrow_mut().remove(key) {
                return Ok(value);
            }
            let message = self.comm.broadcast(0, Vec::new(), wait)?;
            let broken = || Error::corrupt("what rank 0 has set cannot be read");
            let (len, rest) = message.split_first_chunk().ok_or_else(broken)?;
            let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| broken())?;
            let (key, value) = rest.split_at_checked(len).ok_or_else(broken)?;
            self.heard.borrow_mut().insert(String::from_utf8_lossy(key).into_owned(), value.to_vec());
        }
    }

    fn delete(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use forebay_store::LocalComm;

    use super::*;

    #[test]
    fn a_rank_without_its_secret_is_an_error_on_all_and_none_waits_for_it() {
        let errors = LocalComm::run(&[0, 0, 0], |comm| {
            let wait = Wait::at_most(std::time::Duration::from_secs(300));
            let secret = (comm.rank() == 1).then(|| "/nonexistent/secret".into());
            let error = tcp_over(&*comm, secret, &wait).unwrap_err();
            comm.barrier(&wait).unwrap();
            error.to_string()
        });
        assert!(errors.iter().all(|error| error.contains("/nonexistent/secret")), "{errors:?}");
    }

    #[test]
    fn values_of_rank_0_are_found_in_any_order() {
        LocalComm::run(&[0, 0, 0], |comm| {
            let wait = Wait::at_most(std::time::Duration::from_secs(60));
            let rendezvous = CommRendezvous::new(&*comm);
            if comm.rank() == 0 {
                rendezvous.set("secret", b"s").unwrap();
                rendezvous.set("hub", b"").unwrap();
            } else {
                assert_eq!(rendezvous.get("hub", &wait).unwrap(), b"");
                assert_eq!(rendezvous.get("secret", &wait).unwrap(), b"s");
            }
        });
    }
}
