//! A role that STS grants to other credentials (`AssumeRole`).

use std::{fmt, time::Duration};

use async_trait::async_trait;
use http::{Method, Request, header::CONTENT_TYPE};
use object_store::{
    aws::{AwsAuthorizer, AwsCredential, AwsCredentialProvider},
    client::{HttpClient, HttpRequestBody},
};

use super::{
    command::time,
    expiring::{Issued, Issuer},
    profile::AssumedRole,
    usable::usable,
};
use forebay_process::{Error, ErrorKind, Result};

/// How often STS is asked when it does not answer or fails.
const TRIES: u32 = 3;
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks STS for a role.
pub(super) struct RoleIssuer {
    pub(super) role: AssumedRole,
    /// What the request is signed with.
    pub(super) source: AwsCredentialProvider,
    pub(super) endpoint: String,
    pub(super) region: String,
    pub(super) client: HttpClient,
}

impl fmt::Debug for RoleIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleIssuer").field("role", &self.role.arn).finish_non_exhaustive()
    }
}

#[async_trait]
impl Issuer for RoleIssuer {
    async fn issue(&self) -> Result<Issued> {
        let place =
            || format!("AWS profile '{}': role {} by {}", self.role.profile, self.role.arn, self.endpoint);
        let mut tries = 1;
        loop {
            match self.ask().await {
                Err(error) if error.kind() == ErrorKind::Unavailable && tries < TRIES => {
                    tokio::time::sleep(PAUSE).await;
                    tries += 1;
                }
                answer => return answer.map_err(|error| error.at(place())),
            }
        }
    }
}

impl RoleIssuer {
    async fn ask(&self) -> Result<Issued> {
        let source = self.source.get_credential().await.map_err(|error| {
            let ours = super::super::store_error::ours(&error).cloned();
            ours.unwrap_or_else(|| Error::new(ErrorKind::Denied, "no credentials to ask with").because(error))
        })?;
        let unreached = |error: object_store::client::HttpError| {
            Error::new(ErrorKind::Unavailable, "STS cannot be reached")
                .because(error)
                .hint("check AWS_ENDPOINT_URL_STS")
        };
        let answer = self.client.execute(self.request(&source)?).await.map_err(unreached)?;
        let status = answer.status();
        let text = answer.into_body().bytes().await.map_err(unreached)?;
        let text = String::from_utf8_lossy(&text);
        if status.is_success() {
            return granted(&text);
        }
        let kind = if status.is_server_error() { ErrorKind::Unavailable } else { ErrorKind::Denied };
        let code = element(&text, "Code").filter(|code| code.len() < 100).unwrap_or("no reason");
        Err(Error::new(kind, format!("not granted: {}, {code}", status.as_u16())))
    }

    /// The request, signed by `source`.
    fn request(&self, source: &AwsCredential) -> Result<Request<HttpRequestBody>> {
        let bug =
            |error: String| Error::new(ErrorKind::Denied, format!("no request can be made of it: {error}"));
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/", self.endpoint.trim_end_matches('/')))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8")
            .body(HttpRequestBody::from(self.form()))
            .map_err(|error| bug(error.to_string()))?;
        let signer = AwsAuthorizer::new(source, "sts", &self.region);
        signer.try_authorize(&mut request, None).map_err(|error| bug(error.to_string()))?;
        Ok(request)
    }

    fn form(&self) -> String {
        let AssumedRole { arn, session_name, external_id, seconds, .. } = &self.role;
        let seconds = seconds.to_string();
        let fields = [
            ("Action", Some("AssumeRole")),
            ("Version", Some("2011-06-15")),
            ("RoleArn", Some(arn.as_str())),
            ("RoleSessionName", Some(session_name.as_str())),
            ("DurationSeconds", Some(seconds.as_str())),
            ("ExternalId", external_id.as_deref()),
        ];
        let given = fields.iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded((*value)?))));
        given.collect::<Vec<_>>().join("&")
    }
}

/// `text` as the value of a field of a form.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The credentials in an answer of STS; no message repeats any of it.
fn granted(text: &str) -> Result<Issued> {
    let get = |name| {
        let text = element(text, name).map(str::to_owned);
        text.ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("the answer of STS has no {name}")))
    };
    let keys = AwsCredential {
        key_id: get("AccessKeyId")?,
        secret_key: get("SecretAccessKey")?,
        token: Some(get("SessionToken")?),
    };
    Ok(Issued { credential: usable(keys)?, expires: Some(time(&get("Expiration")?)?) })
}

/// The text of the first element `name`: none of those asked for here holds letters that XML writes otherwise.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = after.split_once(&format!("</{name}>"))?;
    Some(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_forms_are_encoded() {
        assert_eq!(encoded("arn:aws:iam::1:role/a b+é~"), "arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b%2B%C3%A9~");
    }

    #[test]
    fn an_answer_is_read_and_a_broken_one_is_refused_without_a_secret() {
        let answer = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>K</AccessKeyId><SecretAccessKey>hidden</SecretAccessKey>\
                      <SessionToken>T==</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
        let issued = granted(answer).unwrap();
        assert_eq!(
            (issued.credential.key_id.as_str(), issued.credential.token.as_deref()),
            ("K", Some("T=="))
        );
        assert!(issued.expires.is_some());
        for bad in [
            answer.replace("Expiration", "Other"),
            answer.replace("2030", "hidden"),
            answer.replace("==", "\n \u{1}="),
        ] {
            let error = granted(&bad).err().unwrap();
            assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
        }
    }
}
