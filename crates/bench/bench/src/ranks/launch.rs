//! Ranks as processes of this node, without MPI: started as `torchrun` starts its own, so that they find each other.

use std::{ffi::OsString, net::TcpListener, process::Command};

use forebay::{Error, Result};

use crate::ranks::{clock::unix_now_s, lifeline::Lifeline};

/// Runs the same command on `ranks` processes, and gives the highest of their exit codes.
///
/// Each ends by itself when it is interrupted, and rank 0 reports. Ctrl-C reaches them all by their common process group; what
/// interrupts or ends this process alone reaches them by their lifelines.
pub(crate) fn launch(
    ranks: u32,
    program: &[OsString],
    arguments: &[OsString],
    is_interrupted: &dyn Fn() -> bool,
) -> Result<u8> {
    let (first, rest) = program.split_first().ok_or_else(|| Error::invalid("no program"))?;
    // No other job of this node has the port while it is looked for; the name of the job differs by the time too.
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    let port = port.map_err(Error::from_io)?.port();
    let job = format!("bench-{}-{:.6}", std::process::id(), unix_now_s());
    let mut processes = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new(first);
        command.args(rest).args(arguments);
        command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
        command.env("WORLD_SIZE", ranks.to_string()).env("LOCAL_WORLD_SIZE", ranks.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env("TORCHELASTIC_RUN_ID", &job);
        match Lifeline::start(&mut command) {
            Ok(process) => processes.push(process),
            Err(error) => {
                end(&mut processes);
                return Err(Error::from_io(error).at(format!("rank {rank}")));
            }
        }
    }
    Ok(wait(&mut processes, is_interrupted))
}

/// Waits for all; the highest exit code.
fn wait(processes: &mut [Lifeline], is_interrupted: &dyn Fn() -> bool) -> u8 {
    let mut highest = 0;
    for number in 0..processes.len() {
        let (done, later) = processes.split_at_mut(number + 1);
        let Some(process) = done.last_mut() else { break };
        let status = process.wait(&mut || {
            let is_wanted = is_interrupted();
            if is_wanted {
                later.iter_mut().for_each(Lifeline::cut);
            }
            is_wanted
        });
        let code = status.ok().and_then(|status| status.code()).unwrap_or(70);
        highest = highest.max(u8::try_from(code).unwrap_or(70));
    }
    highest
}

fn end(processes: &mut [Lifeline]) {
    for process in processes {
        let _ = process.child.kill();
        let _ = process.child.wait();
    }
}
