//! Profiles of `~/.aws/config` and `~/.aws/credentials`: what they set, and where their credentials come from.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{ErrorKind as Io, Read},
    path::{Path, PathBuf},
};

use object_store::aws::AwsCredential;

use super::{
    command::{self, ProfileCommand},
    ini::{Ini, IniSection},
    usable::usable,
};
use forebay_process::{Error, ErrorKind, Result};

/// Real files have a few kilobytes.
const MOST_BYTES: u64 = 1 << 20;

/// The command by which the tools of AWS hand out the credentials of any profile.
const EXPORT: &str = "aws configure export-credentials --profile";

/// The two files, and which profile of them is meant.
#[derive(Default, PartialEq)]
pub(super) struct Profiles {
    config: Ini,
    credentials: Ini,
    /// None where no variable names one: then it is `default`, which need not be there.
    named: Option<String>,
}

/// Where the credentials of a profile come from.
pub(super) enum CredentialSource {
    /// The profile's own keys.
    Keys(AwsCredential),
    /// What a program of the user prints (`credential_process`).
    Process(ProfileCommand),
    /// A role that STS grants to the credentials of `source`.
    Role { role: AssumedRole, source: Box<CredentialSource> },
    /// A role that STS grants to a token in a file.
    WebIdentity { token_file: String, role_arn: String, session_name: String },
    /// The variables of the environment.
    Environment,
    /// The container's own role.
    Container,
    /// The machine's own role.
    Instance,
}

/// What is asked of STS.
pub(super) struct AssumedRole {
    pub(super) profile: String,
    pub(super) arn: String,
    pub(super) session_name: String,
    pub(super) external_id: Option<String>,
    pub(super) seconds: u32,
}

impl Profiles {
    /// The files that the environment names, else those in the user's folder.
    pub(super) fn read() -> Result<Self> {
        let named = ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]
            .iter()
            .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
        let read = |variable, beneath_home| read(variable, beneath_home, named.is_some());
        let config = read("AWS_CONFIG_FILE", ".aws/config")?;
        let credentials = read("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")?;
        let profiles = Self { config, credentials, named };
        match &profiles.named {
            Some(name) => profiles.check(name).map(|()| profiles),
            None => Ok(profiles),
        }
    }

    /// True where a variable names the profile.
    pub(super) fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// What the profile says of `name`.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.get(self.current(), name)
    }

    /// Where the profile says that S3 is.
    pub(super) fn endpoint(&self) -> Option<&str> {
        let services =
            self.setting("services").and_then(|name| self.config.section(&format!("services {name}")));
        let of_service =
            services.and_then(|section| section.get("s3.endpoint_url")).filter(|url| !url.is_empty());
        of_service.map(String::as_str).or_else(|| self.setting("endpoint_url"))
    }

    /// Where the credentials of the profile come from, if it has any.
    pub(super) fn source(&self) -> Result<Option<CredentialSource>> {
        self.source_of(self.current(), &mut Vec::new())
    }

    fn current(&self) -> &str {
        self.named.as_deref().unwrap_or("default")
    }

    /// The sections of profile `name`, that of the credentials file first, which counts more.
    fn sections(&self, name: &str) -> impl Iterator<Item = &IniSection> {
        let default = self.config.section("default").filter(|_| name == "default");
        [self.credentials.section(name), self.config.section(&format!("profile {name}")), default]
            .into_iter()
            .flatten()
    }

    fn get(&self, profile: &str, name: &str) -> Option<&str> {
        let found =
            self.sections(profile).find_map(|section| section.get(name).filter(|value| !value.is_empty()));
        found.map(String::as_str)
    }

    fn check(&self, name: &str) -> Result<()> {
        if self.sections(name).next().is_some() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Denied, format!("there is no AWS profile '{name}'")).hint(
            "check AWS_PROFILE, and the files ~/.aws/config and ~/.aws/credentials, or those that AWS_CONFIG_FILE and \
             AWS_SHARED_CREDENTIALS_FILE name",
        ))
    }

    /// `above` are the profiles that led here.
    fn source_of(&self, name: &str, above: &mut Vec<String>) -> Result<Option<CredentialSource>> {
        let get = |setting| self.get(name, setting);
        // A profile may name itself as its source: then its own keys are meant.
        if get("role_arn").is_some() && above.last().is_none_or(|last| last != name) {
            return self.role(name, above).map(Some);
        }
        if let Some(keys) = self.keys(name)? {
            return Ok(Some(CredentialSource::Keys(keys)));
        }
        if let Some(line) = get("credential_process") {
            let words = command::split(line).map_err(|error| error.at(place(name, "credential_process")))?;
            return Ok(Some(CredentialSource::Process(ProfileCommand { profile: name.to_owned(), words })));
        }
        if let Some(source) = get("source_profile") {
            return self.source_profile(name, source, above).map(Some);
        }
        if get("sso_session").or_else(|| get("sso_start_url")).is_some() {
            return Err(refused(name, "signs in by SSO, which is not done here"));
        }
        Ok(None)
    }

    fn keys(&self, name: &str) -> Result<Option<AwsCredential>> {
        let get = |setting| self.get(name, setting).map(str::to_owned);
        match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (Some(key_id), Some(secret_key)) => {
                let keys = AwsCredential { key_id, secret_key, token: get("aws_session_token") };
                usable(keys).map(Some).map_err(|error| error.at(format!("AWS profile '{name}'")))
            }
            (None, None) => Ok(None),
            _ => Err(Error::new(ErrorKind::Denied, format!("AWS profile '{name}' has one key of two"))
                .hint("give it aws_access_key_id and aws_secret_access_key")),
        }
    }

    fn role(&self, name: &str, above: &mut Vec<String>) -> Result<CredentialSource> {
        let get = |setting| self.get(name, setting).map(str::to_owned);
        let arn = get("role_arn").unwrap_or_default();
        let session_name = get("role_session_name").unwrap_or_else(|| "forebay".to_owned());
        if let Some(token_file) = get("web_identity_token_file") {
            return Ok(CredentialSource::WebIdentity { token_file, role_arn: arn, session_name });
        }
        if get("mfa_serial").is_some() {
            return Err(refused(
                name,
                "asks for a code of a second device (mfa_serial), which is not done here",
            ));
        }
        let source = match (get("source_profile"), get("credential_source").as_deref()) {
            (Some(source), _) => self.source_profile(name, &source, above)?,
            (None, Some("Environment")) => CredentialSource::Environment,
            (None, Some("EcsContainer")) => CredentialSource::Container,
            (None, Some("Ec2InstanceMetadata")) => CredentialSource::Instance,
            (None, _) => {
                let what = format!("AWS profile '{name}' has a role_arn, and nothing that asks for the role");
                return Err(Error::new(ErrorKind::Denied, what).hint("give it a source_profile"));
            }
        };
        let seconds = match get("duration_seconds") {
            None => 3600,
            Some(text) => text.parse().map_err(|_| {
                Error::new(ErrorKind::Denied, format!("'{text}' is no number of seconds"))
                    .at(place(name, "duration_seconds"))
            })?,
        };
        let external_id = get("external_id");
        let role = AssumedRole { profile: name.to_owned(), arn, session_name, external_id, seconds };
        Ok(CredentialSource::Role { role, source: Box::new(source) })
    }

    /// The credentials of `source`, which `name` refers to.
    fn source_profile(&self, name: &str, source: &str, above: &mut Vec<String>) -> Result<CredentialSource> {
        if above.iter().any(|passed| passed == source) {
            let what = format!("AWS profile '{name}' leads back to '{source}' by source_profile");
            return Err(Error::new(ErrorKind::Denied, what));
        }
        self.check(source).map_err(|error| error.at(place(name, "source_profile")))?;
        above.push(name.to_owned());
        self.source_of(source, above)?.ok_or_else(|| {
            Error::new(ErrorKind::Denied, format!("AWS profile '{source}' has no credentials"))
                .hint(format!("AWS profile '{name}' takes them from there"))
        })
    }
}

fn place(profile: &str, setting: &str) -> String {
    format!("AWS profile '{profile}': {setting}")
}

/// The error for a profile that only the tools of AWS can use, and the way by which we can all the same.
fn refused(profile: &str, what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("AWS profile '{profile}' {what}")).hint(format!(
        "sign in by 'aws', and name by AWS_PROFILE a profile of its own with 'credential_process = {EXPORT} {profile}'; a \
         public bucket needs AWS_SKIP_SIGNATURE=true alone"
    ))
}

/// The file that `variable` names, else the one below the user's folder; nothing where there is none. One that cannot be
/// read is an error only where the user asked for it: `is_wanted`, or the variable is set.
fn read(variable: &str, beneath_home: &str, is_wanted: bool) -> Result<Ini> {
    let given = env::var_os(variable).filter(|path| !path.is_empty());
    let is_wanted = is_wanted || given.is_some();
    let Some(path) = path(given, beneath_home) else { return Ok(Ini::default()) };
    match text(&path) {
        Ok(text) => Ok(Ini::parse(&text)),
        Err(error) if is_wanted => Err(error.at(path.display())),
        Err(_) => Ok(Ini::default()),
    }
}

fn path(given: Option<OsString>, beneath_home: &str) -> Option<PathBuf> {
    let home = || env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let Some(given) = given.map(PathBuf::from) else { return Some(home()?.join(beneath_home)) };
    match given.strip_prefix("~") {
        Ok(rest) => Some(home()?.join(rest)),
        Err(_) => Some(given),
    }
}

/// The file at `path`; a missing one has no text.
fn text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    // A pipe of that name could be waited for without end.
    let metadata = match path.metadata() {
        Err(error) if matches!(error.kind(), Io::NotFound | Io::NotADirectory) => return Ok(String::new()),
        metadata => metadata.map_err(Error::from_io)?,
    };
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::Denied, "is no regular file"));
    }
    let file = File::open(path).map_err(Error::from_io)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(Error::from_io)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::new(ErrorKind::Denied, "is too long for a file of profiles"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles(config: &str, credentials: &str, name: &str) -> Profiles {
        Profiles {
            config: Ini::parse(config),
            credentials: Ini::parse(credentials),
            named: Some(name.to_owned()),
        }
    }

    fn key(source: &CredentialSource) -> &str {
        match source {
            CredentialSource::Keys(keys) => &keys.key_id,
            _ => "",
        }
    }

    fn refusal(config: &str, name: &str) -> String {
        profiles(config, "", name).source().err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_credentials_file_counts_more_and_the_rest_is_taken_from_the_other() {
        let config = "[profile a]\naws_access_key_id=old\naws_secret_access_key=s\nregion=eu-west-1\n[default]\nregion=none\n";
        let both = profiles(
            config,
            "[a]\naws_access_key_id=new\naws_secret_access_key=t\naws_session_token=u\n",
            "a",
        );
        assert_eq!(both.setting("region"), Some("eu-west-1"));
        let Ok(Some(CredentialSource::Keys(keys))) = both.source() else { panic!("no keys") };
        assert_eq!(
            (keys.key_id.as_str(), keys.secret_key.as_str(), keys.token.as_deref()),
            ("new", "t", Some("u"))
        );
        assert_eq!(profiles(config, "", "default").setting("region"), Some("none"));
        assert!(profiles(config, "", "b").check("b").is_err());
    }

    #[test]
    fn a_source_profile_leads_to_keys_with_a_role_or_without() {
        let config = "[profile keys]\naws_access_key_id=K\naws_secret_access_key=s\n[profile plain]\nsource_profile=keys\n\
                      [profile one]\nrole_arn=arn:one\nsource_profile=plain\nexternal_id=x\n\
                      [profile two]\nrole_arn=arn:two\nsource_profile=one\nduration_seconds=900\n\
                      [profile self]\nrole_arn=arn:self\nsource_profile=self\naws_access_key_id=S\naws_secret_access_key=s\n";
        assert_eq!(profiles(config, "", "plain").source().ok().flatten().as_ref().map(key), Some("K"));
        let Ok(Some(CredentialSource::Role { role: two, source })) = profiles(config, "", "two").source()
        else {
            panic!("no role")
        };
        assert_eq!((two.arn.as_str(), two.seconds, two.external_id.as_deref()), ("arn:two", 900, None));
        let CredentialSource::Role { role: one, source } = *source else { panic!("no role below") };
        assert_eq!((one.arn.as_str(), one.seconds, one.external_id.as_deref()), ("arn:one", 3600, Some("x")));
        assert_eq!(key(&source), "K");
        let Ok(Some(CredentialSource::Role { source, .. })) = profiles(config, "", "self").source() else {
            panic!("no role")
        };
        assert_eq!(key(&source), "S");
    }

    #[test]
    fn profiles_that_lead_nowhere_are_refused_by_name() {
        let config = "[profile a]\nrole_arn=r\nsource_profile=b\n[profile b]\nrole_arn=r\nsource_profile=a\n\
                      [profile c]\nsource_profile=c\n[profile d]\nrole_arn=r\nsource_profile=missing\n[profile e]\nrole_arn=r\n\
                      [profile f]\nsource_profile=g\n[profile g]\nregion=x\n[profile h]\naws_access_key_id=K\n\
                      [profile i]\nrole_arn=r\nsource_profile=h\nmfa_serial=m\n[profile j]\nsso_session=s\n\
                      [profile k]\naws_access_key_id=K\naws_secret_access_key=s\n  t\n[profile l]\nrole_arn=r\nsource_profile=l\n";
        for (name, words) in [
            ("a", "'b' leads back to 'a'"),
            ("c", "leads back to 'c'"),
            ("d", "source_profile: there is no AWS profile 'missing'"),
            ("e", "give it a source_profile"),
            ("f", "'g' has no credentials"),
            ("h", "one key of two"),
            ("i", "credential_process = aws configure export-credentials --profile i"),
            ("j", "credential_process = aws configure export-credentials --profile j"),
            ("k", "AWS profile 'k'"),
            ("l", "'l'"),
        ] {
            assert!(refusal(config, name).contains(words), "{name}: {}", refusal(config, name));
        }
        assert!(profiles(config, "", "g").source().is_ok_and(|source| source.is_none()));
    }

    #[test]
    fn the_endpoint_of_the_service_counts_more_than_that_of_the_profile() {
        let config = "[profile a]\nendpoint_url=http://all\nservices=local\n[services local]\ns3 =\n  endpoint_url = http://s3\n\
                      [profile b]\nendpoint_url=http://all\nservices=none\n";
        assert_eq!(profiles(config, "", "a").endpoint(), Some("http://s3"));
        assert_eq!(profiles(config, "", "b").endpoint(), Some("http://all"));
    }
}
