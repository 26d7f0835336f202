//! Messages between a rank and its workers: a length of 4 bytes, then the message.

use std::io::{self, Read, Write};

use forebay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Longer messages are not ours.
const MOST: u32 = 256 << 20;

/// Sends `message`.
pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let bytes = postcard::to_stdvec(message)
        .map_err(|error| Error::new(ErrorKind::Bug, "a message cannot be encoded").because(error))?;
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len <= MOST);
    let len = len.ok_or_else(|| Error::invalid("a message of more than 256 MiB"))?;
    let sent = to.write_all(&len.to_le_bytes()).and_then(|()| to.write_all(&bytes)).and_then(|()| to.flush());
    sent.map_err(Error::from_io)
}

/// The next message; none where the other side has ended.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(Error::from_io(error)),
    }
    let len = u32::from_le_bytes(len);
    if len > MOST {
        return Err(Error::corrupt("a message of more than 256 MiB"));
    }
    let mut bytes = vec![0; len as usize];
    from.read_exact(&mut bytes).map_err(Error::from_io)?;
    let message = postcard::from_bytes(&bytes);
    message.map(Some).map_err(|error| Error::corrupt("a message cannot be decoded").because(error))
}

/// An error on its way to another process: its kind and its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentError {
    kind: u8,
    text: String,
}

/// The kinds, each at the number that stands for it.
const KINDS: [ErrorKind; 9] = [
    ErrorKind::Bug,
    ErrorKind::NotFound,
    ErrorKind::Invalid,
    ErrorKind::Corrupt,
    ErrorKind::Unsupported,
    ErrorKind::Unavailable,
    ErrorKind::Full,
    ErrorKind::Denied,
    ErrorKind::Io,
];

impl From<&Error> for SentError {
    fn from(error: &Error) -> Self {
        let kind = KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(0);
        Self { kind: u8::try_from(kind).unwrap_or(0), text: error.to_string() }
    }
}

impl From<SentError> for Error {
    fn from(sent: SentError) -> Self {
        Self::new(KINDS.get(usize::from(sent.kind)).copied().unwrap_or(ErrorKind::Bug), sent.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent_and_an_end_is_none() {
        let mut pipe = Vec::new();
        send(&mut pipe, &("one", 1u64)).unwrap();
        send(&mut pipe, &SentError::from(&Error::new(ErrorKind::Full, "no room"))).unwrap();
        let mut from = &pipe[..];
        assert_eq!(receive::<(String, u64)>(&mut from).unwrap(), Some(("one".to_owned(), 1)));
        let error: Error = receive::<SentError>(&mut from).unwrap().unwrap().into();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Full, "no room"));
        assert_eq!(receive::<u8>(&mut from).unwrap(), None);
    }
}
