//! Ranks as processes of this node, without MPI: started as `torchrun` starts its own, so that they find each other.

use std::{
    ffi::OsString,
    net::TcpListener,
    process::{Child, Command},
    thread,
    time::Duration,
};

use forebay::{Error, Result};

use crate::clock::unix_now_s;

/// Runs the same command on `ranks` processes, and gives the highest of their exit codes.
///
/// Ctrl-C reaches them all by their common process group; each ends by itself, and rank 0 reports.
pub(crate) fn launch(ranks: u32, program: &[OsString], arguments: &[OsString]) -> Result<u8> {
    let (first, rest) = program.split_first().ok_or_else(|| Error::invalid("no program"))?;
    // No other job of this node has the port while it is looked for; the name of the job differs by the time too.
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    let port = port.map_err(Error::from_io)?.port();
    let job = format!("bench-{}-{:.6}", std::process::id(), unix_now_s());
    let mut children = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new(first);
        command.args(rest).args(arguments);
        command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
        command.env("WORLD_SIZE", ranks.to_string()).env("LOCAL_WORLD_SIZE", ranks.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env("TORCHELASTIC_RUN_ID", &job);
        match command.spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                end(&mut children);
                return Err(Error::from_io(error).at(format!("rank {rank}")));
            }
        }
    }
    Ok(wait(&mut children))
}

/// Waits for all; the highest exit code.
fn wait(children: &mut [Child]) -> u8 {
    let mut highest = 0;
    for child in children.iter_mut() {
        let code = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status.code().unwrap_or(70),
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(_) => break 70,
            }
        };
        highest = highest.max(u8::try_from(code).unwrap_or(70));
    }
    highest
}

fn end(children: &mut [Child]) {
    for child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}
