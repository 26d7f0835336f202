//! Credentials that a program of the user prints (`credential_process`).

use std::{
    fmt,
    io::Read,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use chrono::DateTime;
use object_store::aws::AwsCredential;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::{
    expiring::{Issued, Issuer},
    usable::usable,
};
use forebay_process::{Error, ErrorKind, Result};

/// As long as the SDKs of AWS wait.
const LIMIT: Duration = Duration::from_secs(60);
/// A session token has a few kilobytes.
const MOST_BYTES: u64 = 256 << 10;

/// The program that prints the credentials of a profile.
#[derive(Clone)]
pub(super) struct ProfileCommand {
    pub(super) profile: String,
    pub(super) words: Vec<String>,
}

#[async_trait]
impl Issuer for ProfileCommand {
    async fn issue(&self) -> Result<Issued> {
        let (words, place) =
            (self.words.clone(), format!("credential_process of AWS profile '{}'", self.profile));
        let ran = tokio::task::spawn_blocking(move || run(&words, LIMIT)).await;
        let ran =
            ran.unwrap_or_else(|_| Err(Error::new(ErrorKind::Bug, "the thread that waited for it panicked")));
        ran.and_then(|printed| parse(&printed)).map_err(|error| error.at(place))
    }
}

/// The words of the command may hold secrets.
impl fmt::Debug for ProfileCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileCommand").field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// What the command prints within `limit`. No shell is asked, and what it says of itself (stderr) is not shown.
fn run(words: &[String], limit: Duration) -> Result<Vec<u8>> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| Error::new(ErrorKind::Denied, "is empty"))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A group of its own, so that what it starts ends with it.
        .process_group(0)
        .spawn()
        .map_err(|error| {
            Error::new(ErrorKind::Denied, format!("'{program}' cannot be run: {error}")).because(error)
        })?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, receiver) = mpsc::channel();
    // Nobody waits for this thread: a program that stays behind may hold the pipe open.
    let reader = thread::Builder::new().name("forebay-credentials".into());
    let reading = reader.spawn(move || drop(sender.send(read(child))));
    reading.map_err(Error::from_io)?;
    // It may have ended by itself meanwhile.
    let kill = || group.is_some_and(|group| kill_process_group(group, Signal::KILL).is_ok());
    let Ok(ended) = receiver.recv_timeout(limit) else {
        kill();
        let what = format!("did not end within {} s", limit.as_secs());
        return Err(Error::new(ErrorKind::Unavailable, what).hint("run it by hand to see what it waits for"));
    };
    let (printed, status) = ended.map_err(Error::from_io)?;
    if printed.len() as u64 > MOST_BYTES {
        kill();
        return Err(Error::new(ErrorKind::Denied, format!("printed more than {MOST_BYTES} bytes")));
    }
    match status {
        Some(status) if !status.success() => {
            Err(Error::new(ErrorKind::Denied, format!("failed ({status})")).hint("run it by hand to see why"))
        }
        _ => Ok(printed),
    }
}

/// What `child` prints, up to one byte too many, and how it ended, unless another thread waited for it.
fn read(mut child: Child) -> std::io::Result<(Vec<u8>, Option<ExitStatus>)> {
    let mut printed = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MOST_BYTES + 1).read_to_end(&mut printed)?;
    }
    if printed.len() as u64 > MOST_BYTES {
        // It may print on; nothing else is asked of it.
        drop(child.kill());
    }
    Ok((printed, child.wait().ok()))
}

/// Version 1 of what such programs print.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u64,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

/// The credentials in `printed`; no message repeats any of it.
fn parse(printed: &[u8]) -> Result<Issued> {
    let invalid = |what: String| {
        Error::new(ErrorKind::Denied, what)
            .hint("it must print JSON with Version 1, AccessKeyId and SecretAccessKey")
    };
    let printed: Printed = serde_json::from_slice(printed).map_err(|error| {
        invalid(format!("what it printed is not understood, line {} column {}", error.line(), error.column()))
    })?;
    if printed.version != 1 {
        return Err(invalid(format!("it printed version {} of credentials", printed.version)));
    }
    let Printed { access_key_id, secret_access_key, session_token, expiration, .. } = printed;
    let expires = expiration.filter(|text| !text.is_empty()).map(|text| time(&text)).transpose()?;
    let keys = AwsCredential { key_id: access_key_id, secret_key: secret_access_key, token: session_token };
    Ok(Issued { credential: usable(keys)?, expires })
}

/// The moment that `text` names, as RFC 3339 writes it.
pub(super) fn time(text: &str) -> Result<SystemTime> {
    let time = DateTime::parse_from_rfc3339(text.trim());
    time.map(SystemTime::from)
        .map_err(|_| Error::new(ErrorKind::Denied, "credentials whose Expiration is no time"))
}

/// The words of a command line as a shell would part them; nothing is expanded.
pub(super) fn split(line: &str) -> Result<Vec<String>> {
    let unclosed = || Error::new(ErrorKind::Denied, "a quote or backslash that nothing follows");
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next().ok_or_else(unclosed)? {
                        end if end == letter => break,
                        '\\' if letter == '"' => match letters.next().ok_or_else(unclosed)? {
                            escaped @ ('"' | '\\') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next().ok_or_else(unclosed)?),
            space if space.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, UNIX_EPOCH};

    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn words_are_parted_as_a_shell_does() {
        let split = |line| split(line).unwrap();
        assert_eq!(
            split("  a  'b c' \"d \\\"e\\\" \\n\" f\\ g h''i \"\""),
            ["a", "b c", "d \"e\" \\n", "f g", "hi", ""]
        );
        assert_eq!(split("~/tool --at $HOME *"), ["~/tool", "--at", "$HOME", "*"]);
        assert!(split("").is_empty());
        for open in ["'a", "\"a", "a\\", "\"a\\"] {
            assert_eq!(super::split(open).unwrap_err().kind(), ErrorKind::Denied);
        }
    }

    #[test]
    fn what_a_program_prints_is_taken_and_its_failure_is_an_error() {
        assert_eq!(run(&shell("echo out; echo err >&2"), LIMIT).unwrap(), b"out\n");
        assert_eq!(run(&shell("echo secret; exit 3"), LIMIT).unwrap_err().kind(), ErrorKind::Denied);
        let missing = run(&["/no/such/program".to_owned()], LIMIT).unwrap_err();
        assert!(
            missing.kind() == ErrorKind::Denied && missing.to_string().contains("/no/such/program"),
            "{missing}"
        );
        assert_eq!(run(&[], LIMIT).unwrap_err().kind(), ErrorKind::Denied);
    }

    #[test]
    fn a_program_that_prints_without_end_or_never_ends_is_stopped() {
        let began = Instant::now();
        assert_eq!(run(&shell("yes secret"), LIMIT).unwrap_err().kind(), ErrorKind::Denied);
        // The sleep is a process of its own, which holds the pipe open after the shell has gone.
        let late = run(&shell("sleep 50 & wait"), Duration::from_millis(100)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Unavailable, "{late}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn credentials_are_read_and_nothing_of_them_is_repeated_in_messages() {
        let whole = r#"{"Version":1,"AccessKeyId":"K","SecretAccessKey":"S","SessionToken":"T","Expiration":"1970-01-01T00:01:00+00:00","Other":[]}"#;
        let Issued { credential, expires } = parse(whole.as_bytes()).unwrap();
        assert_eq!(
            (credential.key_id.as_str(), credential.secret_key.as_str(), credential.token.as_deref()),
            ("K", "S", Some("T"))
        );
        assert_eq!(expires, Some(UNIX_EPOCH + Duration::from_secs(60)));
        assert!(
            parse(br#"{"Version":1,"AccessKeyId":"K","SecretAccessKey":"S"}"#).unwrap().expires.is_none()
        );
        for bad in [
            r#"{"Version":"hidden","AccessKeyId":"K","SecretAccessKey":"hidden"}"#,
            r#"{"Version":2,"AccessKeyId":"K","SecretAccessKey":"hidden"}"#,
            r#"{"Version":1,"AccessKeyId":"K","SecretAccessKey":"hidden","Expiration":"hidden"}"#,
            r#"{"Version":1,"AccessKeyId":"K","SecretAccessKey":"hidden\nhidden"}"#,
            r#"{"Version":1,"AccessKeyId":"hidden"}"#,
            "hidden",
            "",
        ] {
            let error = parse(bad.as_bytes()).err().unwrap();
            assert!(
                error.kind() == ErrorKind::Denied && !format!("{error:?}").contains("hidden"),
                "{error:?}"
            );
        }
    }
}
