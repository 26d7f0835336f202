//! How a client of S3 is made, and which credentials its requests are signed with.
//!
//! | file | idea |
//! |---|---|
//! | `ini` | the files of AWS: sections and settings |
//! | `profile` | what a profile sets, and where its credentials come from |
//! | `command` | credentials that a program prints |
//! | `sts` | roles that STS grants |
//! | `expiring` | credentials that are asked for again before they end |

mod command;
mod expiring;
mod ini;
mod profile;
mod sts;
mod usable;

use std::{
    env,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use object_store::{
    ClientConfigKey, ClientOptions, RetryConfig, StaticCredentialProvider,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey as Key, AwsCredential, AwsCredentialProvider},
    client::{HttpConnector, ReqwestConnector},
};

use self::{
    expiring::Expiring,
    profile::{AssumedRole, CredentialSource, Profiles},
    sts::RoleIssuer,
    usable::usable,
};
use super::{
    client_options::{TIMES, environment},
    engine::Engine,
    lock::lock,
    store_error::from_store,
};
use forebay_process::{Error, ErrorKind, PerProcess, Result};

/// A machine that has a role answers within milliseconds.
const METADATA_LIMIT: Duration = Duration::from_secs(1);
/// The region of requests where nothing names one.
const REGION: &str = "us-east-1";
const CONTAINER: [Key; 3] = [
    Key::ContainerCredentialsRelativeUri,
    Key::ContainerCredentialsFullUri,
    Key::ContainerAuthorizationTokenFile,
];
/// What decides how requests are signed.
const CREDENTIALS: [Key; 10] = [
    Key::AccessKeyId,
    Key::SecretAccessKey,
    Key::Token,
    Key::WebIdentityTokenFile,
    Key::RoleArn,
    Key::RoleSessionName,
    CONTAINER[0],
    CONTAINER[1],
    CONTAINER[2],
    Key::SkipSignature,
];

/// The credentials that were found last, and where. Each opening of a set makes clients of its own: without this each would
/// run the user's program, or ask STS, again.
static FOUND: PerProcess<Mutex<Option<(AwsEnvironment, AwsCredentialProvider)>>> = PerProcess::empty();

/// The client of `bucket`.
///
/// Credentials are looked for in this order: keys of the environment, the profile that `AWS_PROFILE` names, web identity,
/// the container's role, the default profile, the machine's role. Where there are none nothing is signed, which serves
/// public buckets; `AWS_SKIP_SIGNATURE=true` looks for none, and `false` never goes without.
///
/// Its errors are of no kind that formats take for a missing file or a folder, so that each is met once.
pub(super) fn client(bucket: &str, retry: &RetryConfig, engine: &Engine) -> Result<AmazonS3> {
    let profiles = Profiles::read()?;
    let settings = AwsSettings::new(&profiles, retry)?;
    let builder = settings.builder(&[]).with_bucket_name(bucket);
    let credentials = match settings.signature() {
        Some(false) => None,
        must_sign => find(&settings, profiles, must_sign.is_some(), engine)?,
    };
    let builder = match credentials {
        Some(provider) => builder.with_credentials(provider),
        None => builder.with_skip_signature(true),
    };
    builder.build().map_err(|error| from_store(error, "s3://"))
}

/// All that decides which credentials are found.
#[derive(PartialEq)]
struct AwsEnvironment {
    variables: Vec<(String, String)>,
    profiles: Profiles,
    patience: Duration,
}

/// The credentials to sign with: those that were found last, where nothing has changed since.
fn find(
    settings: &AwsSettings,
    profiles: Profiles,
    must_sign: bool,
    engine: &Engine,
) -> Result<Option<AwsCredentialProvider>> {
    let mut variables: Vec<_> = environment("AWS_").collect();
    variables.sort_unstable();
    let now = AwsEnvironment { variables, profiles, patience: settings.retry.retry_timeout };
    let found = FOUND.get(Mutex::default);
    let mut found = lock(&found);
    if let Some((_, provider)) = found.as_ref().filter(|(then, _)| *then == now) {
        return Ok(Some(Arc::clone(provider)));
    }
    let provider = match settings.credentials(&now.profiles)? {
        Some(provider) => provider,
        None if must_sign || settings.machine_has_role(engine)? => provider_of(settings.builder(&[]))?,
        None => return Ok(None),
    };
    *found = Some((now, Arc::clone(&provider)));
    Ok(Some(provider))
}

/// What the environment sets, and the profile where the environment is silent.
struct AwsSettings {
    /// Ours first, so that those of the user count more.
    set: Vec<(Key, String)>,
    retry: RetryConfig,
}

impl AwsSettings {
    fn new(profiles: &Profiles, retry: &RetryConfig) -> Result<Self> {
        let ours = TIMES.map(|(key, value)| (Key::Client(key), value.to_owned()));
        let theirs = environment("AWS_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
        let set = ours.into_iter().chain(theirs).filter(|(_, value)| !value.is_empty()).collect();
        let mut settings = Self { set, retry: retry.clone() };
        // The last is named so by the SDKs of AWS.
        let metadata = env::var("AWS_EC2_METADATA_SERVICE_ENDPOINT").ok().filter(|url| !url.is_empty());
        for (keys, value) in [
            ([Key::Region, Key::DefaultRegion], profiles.setting("region")),
            ([Key::Endpoint, Key::S3Endpoint], profiles.endpoint()),
            ([Key::MetadataEndpoint; 2], metadata.as_deref().map(|url| url.trim_end_matches('/'))),
        ] {
            if let Some(value) = value.filter(|_| keys.iter().all(|key| settings.get(*key).is_none())) {
                settings.set.push((keys[0], value.to_owned()));
            }
        }
        let endpoint = settings.get(Key::S3Endpoint).or_else(|| settings.get(Key::Endpoint));
        if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
            settings.set.push((Key::Client(ClientConfigKey::AllowHttp), "true".to_owned()));
        }
        // It becomes part of a header.
        if !settings.region().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err(Error::new(ErrorKind::Denied, format!("{:?} is no region", settings.region()))
                .hint("check AWS_REGION, and the region of the AWS profile"));
        }
        Ok(settings)
    }

    fn get(&self, key: Key) -> Option<&str> {
        self.set.iter().rev().find(|(set, _)| *set == key).map(|(_, value)| value.as_str())
    }

    fn region(&self) -> &str {
        self.get(Key::Region).or_else(|| self.get(Key::DefaultRegion)).unwrap_or(REGION)
    }

    /// Whether the user decided that requests are signed, or not.
    fn signature(&self) -> Option<bool> {
        self.get(Key::SkipSignature).map(|skip| !is_true(skip))
    }

    /// A builder of all settings but credentials, of which it has `wanted` only.
    fn builder(&self, wanted: &[Key]) -> AmazonS3Builder {
        let is_taken = |key: &Key| !CREDENTIALS.contains(key) || wanted.contains(key);
        let empty = AmazonS3Builder::new().with_retry(self.retry.clone());
        let taken = self.set.iter().filter(|(key, _)| is_taken(key));
        taken.fold(empty, |builder, (key, value)| builder.with_config(*key, value))
    }

    /// The credentials to sign with, except the machine's own role.
    fn credentials(&self, profiles: &Profiles) -> Result<Option<AwsCredentialProvider>> {
        if self.get(Key::AccessKeyId).or_else(|| self.get(Key::SecretAccessKey)).is_some() {
            return self.keys().map(Some);
        }
        let of_profile = |is_named| match profiles.is_named() == is_named {
            true => profiles.source()?.map(|source| self.provider(source)).transpose(),
            false => Ok(None),
        };
        if let Some(provider) = of_profile(true)? {
            return Ok(Some(provider));
        }
        if self.get(Key::WebIdentityTokenFile).is_some() {
            return self.web_identity().map(Some);
        }
        if self.get(CONTAINER[0]).or_else(|| self.get(CONTAINER[1])).is_some() {
            return self.container().map(Some);
        }
        of_profile(false)
    }

    fn provider(&self, source: CredentialSource) -> Result<AwsCredentialProvider> {
        match source {
            CredentialSource::Keys(keys) => Ok(Arc::new(StaticCredentialProvider::new(keys))),
            CredentialSource::Process(command) => Ok(Arc::new(Expiring::new(command))),
            CredentialSource::Role { role, source } => self.role(role, *source),
            CredentialSource::WebIdentity { token_file, role_arn, session_name } => provider_of(
                self.builder(&[])
                    .with_config(Key::WebIdentityTokenFile, token_file)
                    .with_config(Key::RoleArn, role_arn)
                    .with_config(Key::RoleSessionName, session_name),
            ),
            CredentialSource::Environment => self.keys(),
            CredentialSource::Container => self.container(),
            CredentialSource::Instance => provider_of(self.builder(&[])),
        }
    }

    /// The keys of the environment.
    fn keys(&self) -> Result<AwsCredentialProvider> {
        let get = |key| self.get(key).map(str::to_owned);
        let (Some(key_id), Some(secret_key)) = (get(Key::AccessKeyId), get(Key::SecretAccessKey)) else {
            return Err(Error::new(ErrorKind::Denied, "the environment has one key of two, or none")
                .hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
        };
        let keys = usable(AwsCredential { key_id, secret_key, token: get(Key::Token) });
        let keys =
            keys.map_err(|error| error.at("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN"))?;
        Ok(Arc::new(StaticCredentialProvider::new(keys)))
    }

    fn web_identity(&self) -> Result<AwsCredentialProvider> {
        if self.get(Key::RoleArn).is_none() {
            return Err(Error::new(ErrorKind::Denied, "AWS_WEB_IDENTITY_TOKEN_FILE without a role")
                .hint("set AWS_ROLE_ARN"));
        }
        provider_of(self.builder(&[Key::WebIdentityTokenFile, Key::RoleArn, Key::RoleSessionName]))
    }

    fn container(&self) -> Result<AwsCredentialProvider> {
        let is_whole = self.get(CONTAINER[1]).and(self.get(CONTAINER[2])).is_some();
        if !is_whole && self.get(CONTAINER[0]).is_none() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "container credentials without a file with their token",
            )
            .hint(
                "set AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE, or use an AWS profile with a credential_process",
            ));
        }
        provider_of(self.builder(&CONTAINER))
    }

    fn role(&self, role: AssumedRole, source: CredentialSource) -> Result<AwsCredentialProvider> {
        let region = self.region().to_owned();
        let endpoint = self.get(Key::StsEndpoint).map(str::to_owned);
        let endpoint = endpoint.unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com"));
        let options = self.set.iter().fold(ClientOptions::new(), |options, (key, value)| match key {
            Key::Client(key) => options.with_config(*key, value),
            _ => options,
        });
        let options = options.with_allow_http(endpoint.starts_with("http://"));
        let client =
            ReqwestConnector::default().connect(&options).map_err(|error| from_store(error, "s3://"))?;
        let source = self.provider(source)?;
        Ok(Arc::new(Expiring::new(RoleIssuer { role, source, endpoint, region, client })))
    }

    /// True where this machine has a role of its own. It is asked once, and again a minute after it did not say so: it may have
    /// been busy. A forked child has the answer of its parent.
    fn machine_has_role(&self, engine: &Engine) -> Result<bool> {
        const UNKNOWN: u64 = 0;
        const YES: u64 = u64::MAX;
        /// Otherwise the second, counted from 1970, until which there is none.
        static ROLE: AtomicU64 = AtomicU64::new(UNKNOWN);
        if env::var("AWS_EC2_METADATA_DISABLED").is_ok_and(|text| is_true(&text)) {
            return Ok(false);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let known = ROLE.load(Relaxed);
        if known > now {
            return Ok(known == YES);
        }
        let retry = RetryConfig { max_retries: 0, retry_timeout: METADATA_LIMIT, ..RetryConfig::default() };
        let provider = provider_of(self.builder(&[]).with_retry(retry))?;
        let asked = async move { tokio::time::timeout(METADATA_LIMIT, provider.get_credential()).await };
        let has_role = matches!(engine.wait_for(asked)?, Ok(Ok(_)));
        ROLE.store(if has_role { YES } else { now + 60 }, Relaxed);
        Ok(has_role)
    }
}

/// The provider that the crate makes of `builder`.
fn provider_of(builder: AmazonS3Builder) -> Result<AwsCredentialProvider> {
    let client =
        builder.with_bucket_name("credentials").build().map_err(|error| from_store(error, "s3://"))?;
    Ok(Arc::clone(client.credentials()))
}

fn is_true(text: &str) -> bool {
    ["1", "true", "on", "yes", "y"].contains(&text.trim().to_ascii_lowercase().as_str())
}
