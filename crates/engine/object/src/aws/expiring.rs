//! Credentials that expire: held while they last, asked for again before they end.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use object_store::{CredentialProvider, aws::AwsCredential};
use tokio::sync::Mutex;

use forebay_process::{Error, ErrorKind, Result};

/// New credentials are asked for so long before the old ones end, or after three quarters of a shorter life.
const MARGIN: Duration = Duration::from_secs(300);
/// After a failure the old ones are used for so long before it is tried again.
const PAUSE: Duration = Duration::from_secs(10);

/// Where credentials are issued.
#[async_trait]
pub(super) trait Issuer: fmt::Debug + Send + Sync {
    /// New credentials, within a bounded time.
    async fn issue(&self) -> Result<Issued>;
}

/// Credentials, and when they end, if they do.
pub(super) struct Issued {
    pub(super) credential: AwsCredential,
    pub(super) expires: Option<SystemTime>,
}

/// The credentials of an issuer. One task asks for them at a time, and all others get what it got.
#[derive(Debug)]
pub(super) struct Expiring<I> {
    issuer: I,
    held: Mutex<Option<HeldCredential>>,
    /// The last failure, and when it was known.
    failed: Mutex<Option<(Error, Instant)>>,
}

/// `AwsCredential` shows no secret.
#[derive(Debug)]
struct HeldCredential {
    credential: Arc<AwsCredential>,
    expires: Option<SystemTime>,
    renew: Option<SystemTime>,
}

impl<I: Issuer> Expiring<I> {
    pub(super) fn new(issuer: I) -> Self {
        Self { issuer, held: Mutex::new(None), failed: Mutex::new(None) }
    }

    /// The credentials to use at `now`.
    async fn current(&self, now: SystemTime) -> Result<Arc<AwsCredential>> {
        let asked = Instant::now();
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| held.renew.is_none_or(|renew| now < renew)) {
            return Ok(Arc::clone(&held.credential));
        }
        let mut failed = self.failed.lock().await;
        // Who asked before it was known has waited for it.
        if let Some((error, _)) = failed.as_ref().filter(|(_, known)| held.is_none() && asked < *known) {
            return Err(error.clone());
        }
        let issued = self.issuer.issue().await.and_then(|issued| HeldCredential::new(issued, now));
        match (issued, held.as_mut()) {
            (Ok(new), _) => Ok(Arc::clone(&held.insert(new).credential)),
            (Err(_), Some(old)) if old.expires.is_none_or(|expires| now < expires) => {
                old.renew = Some(old.expires.map_or(now + PAUSE, |expires| expires.min(now + PAUSE)));
                Ok(Arc::clone(&old.credential))
            }
            (Err(error), _) => {
                *failed = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}

impl HeldCredential {
    fn new(issued: Issued, now: SystemTime) -> Result<Self> {
        let Issued { credential, expires } = issued;
        let renew = match expires.map(|expires| expires.duration_since(now)) {
            None => None,
            Some(Ok(left)) if !left.is_zero() => Some(now + (left - MARGIN.min(left / 4))),
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::Denied,
                    "the credentials that were issued have expired already",
                )
                .hint("sign in again, and check this machine's clock"));
            }
        };
        Ok(Self { credential: Arc::new(credential), expires, renew })
    }
}

#[async_trait]
impl<I: Issuer> CredentialProvider for Expiring<I> {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let current = self.current(SystemTime::now()).await;
        current.map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering::Relaxed},
        time::UNIX_EPOCH,
    };

    use super::*;

    /// Numbers what it issues, each to end at another second; fails when there are no more.
    #[derive(Debug)]
    struct Numbered {
        count: AtomicU64,
        ends: Vec<Option<u64>>,
    }

    #[async_trait]
    impl Issuer for Numbered {
        async fn issue(&self) -> Result<Issued> {
            let number = self.count.fetch_add(1, Relaxed);
            // Others come to wait for it meanwhile.
            tokio::task::yield_now().await;
            let end = usize::try_from(number).ok().and_then(|number| self.ends.get(number));
            let end = end.ok_or_else(|| Error::new(ErrorKind::Denied, "no more"))?;
            let credential = AwsCredential {
                key_id: number.to_string(),
                secret_key: "hidden".into(),
                token: Some("hidden".into()),
            };
            Ok(Issued { credential, expires: end.map(|end| UNIX_EPOCH + Duration::from_secs(end)) })
        }
    }

    /// Which credentials are used at each of `seconds`; none where that is an error.
    fn used(ends: &[Option<u64>], seconds: &[u64]) -> Vec<Option<String>> {
        let expiring = Expiring::new(Numbered { count: AtomicU64::new(0), ends: ends.to_vec() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let at = |second: &u64| UNIX_EPOCH + Duration::from_secs(*second);
        let now =
            |second| runtime.block_on(expiring.current(at(second))).ok().map(|used| used.key_id.clone());
        seconds.iter().map(now).collect()
    }

    fn numbers(numbers: &[u64]) -> Vec<Option<String>> {
        numbers.iter().map(|number| Some(number.to_string())).collect()
    }

    #[test]
    fn credentials_are_held_while_they_last_and_renewed_before_they_end() {
        assert_eq!(used(&[None, None], &[0, 1_000_000]), numbers(&[0, 0]));
        assert_eq!(used(&[Some(3600), Some(7200)], &[0, 3299, 3301, 3601]), numbers(&[0, 0, 1, 1]));
        // A short life is used up to three quarters.
        assert_eq!(used(&[Some(100), Some(200)], &[0, 74, 76, 101]), numbers(&[0, 0, 1, 1]));
        assert_eq!(used(&[Some(100)], &[100, 101]), [None, None]);
    }

    #[test]
    fn a_failure_is_the_answer_to_all_who_waited_for_it() {
        let expiring = Expiring::new(Numbered { count: AtomicU64::new(0), ends: Vec::new() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let now = SystemTime::now();
        let all = || futures_util::future::join_all((0..50).map(|_| expiring.current(now)));
        assert!(runtime.block_on(all()).iter().all(Result::is_err));
        assert_eq!(expiring.issuer.count.load(Relaxed), 1);
        assert!(runtime.block_on(all()).iter().all(Result::is_err), "who comes later tries anew");
        assert_eq!(expiring.issuer.count.load(Relaxed), 2);
    }

    #[test]
    fn a_renewal_that_fails_leaves_the_old_ones_until_they_end_and_no_longer() {
        assert_eq!(
            used(&[Some(100)], &[0, 80, 99, 100, 101]),
            [&*numbers(&[0, 0, 0]), &[None, None]].concat()
        );
    }
}
