//! `[gateway]`, who may come in: what of it is reachable from other machines, and what is asked of those who come.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Typed;
use super::section::Section;
use crate::auth::lines::FileError;
use crate::auth::tokens::Tokens;
use crate::auth::users::Users;
use crate::settings::{Access, Auth};
use crate::tls::serving::{DoorTls, Identity, IdentityError};

/// Who may come in; `tls` is there if it is written.
pub(super) fn read(gateway: &Section<'_>, tls: Option<&Section<'_>>) -> Access {
    Access { tls: self::tls(gateway, tls), tokens: tokens(gateway), ..who(gateway) }
}

fn who(gateway: &Section<'_>) -> Access {
    let is_scram = gateway.choice("auth") == Some("scram");
    for key in ["users_file", "admins"] {
        if gateway.has(key) && !is_scram {
            let found = "nobody is asked who they are, so it is of no use";
            gateway.complain(key, found, "write `auth = \"scram\"` too, or leave it out");
        }
    }
    if !is_scram {
        return Access::default();
    }
    let admins = gateway.words("admins", "write the names of users, as in [\"ann\"]");
    Access { auth: Auth::Scram(Arc::new(users(gateway))), admins, ..Access::default() }
}

fn users(gateway: &Section<'_>) -> Users {
    let Some(path) = gateway.path("users_file") else {
        if !gateway.has("users_file") {
            let fix = "write `users_file` too: a file with a line for each user, as `punctual user NAME` prints it";
            gateway.complain("auth", "nothing says who the users are", fix);
        }
        return Users::default();
    };
    match Users::read(&path) {
        Ok(users) if users.is_empty() => {
            gateway.complain("users_file", "there is nobody in it", "add the line that `punctual user NAME` prints");
            users
        }
        Ok(users) => users,
        Err(error) => {
            unusable(gateway, "users_file", &error);
            Users::default()
        }
    }
}

/// What has to be shown over HTTP.
fn tokens(gateway: &Section<'_>) -> Option<Arc<Tokens>> {
    const KEY: &str = "http_tokens_file";
    match Tokens::read(&gateway.path(KEY)?) {
        Ok(tokens) if tokens.is_empty() => {
            gateway.complain(KEY, "there is none in it", "write one, as `openssl rand -hex 32` prints it");
            None
        }
        Ok(tokens) => Some(Arc::new(tokens)),
        Err(error) => {
            unusable(gateway, KEY, &error);
            None
        }
    }
}

/// Whether clients are encrypted.
fn tls(gateway: &Section<'_>, section: Option<&Section<'_>>) -> DoorTls {
    let wanted = gateway.choice("tls");
    let Some(section) = section else {
        if matches!(wanted, Some("allowed" | "required")) {
            let fix = "write a table [tls] with `certificate` and `key`";
            gateway.complain("tls", "there is no certificate to show", fix);
        }
        return DoorTls::Off;
    };
    // Read even if it is off: what is wrong with it is better known before it is turned on.
    let (Some(certificate), Some(key)) = (section.path("certificate"), section.path("key")) else {
        return DoorTls::Off;
    };
    match (Identity::read(&certificate, &key), wanted) {
        (Ok(_), Some("off")) => DoorTls::Off,
        (Ok(identity), Some("required")) => DoorTls::Required(identity),
        (Ok(identity), _) => DoorTls::Allowed(identity),
        (Err(error), _) => {
            let (key, fix) = match error {
                IdentityError::Certificate(..) => ("certificate", "write a file with the certificate, in PEM"),
                IdentityError::Key(..) => ("key", "write a file with the key, in PEM and without a passphrase"),
                IdentityError::Exposed(_, exposed) => ("key", exposed.fix()),
                IdentityError::Unfit(_) => ("key", "write the two that belong together"),
            };
            section.complain(key, error.to_string(), fix);
            DoorTls::Off
        }
    }
}

/// Notes why a file of secrets cannot be used.
pub(super) fn unusable(section: &Section<'_>, key: &str, error: &FileError) {
    let fix = match error {
        FileError::Unreadable { .. } => "write a file that is there and can be read",
        FileError::Exposed { exposed, .. } => exposed.fix(),
        FileError::Wrong { .. } => "correct these lines",
    };
    section.complain(key, error.to_string(), fix);
}

/// Notes what can be reached from other machines without a proof of who comes.
pub(super) fn check_reach(
    gateway: &Section<'_>,
    typed: Typed<'_>,
    (listen, http): (Option<SocketAddr>, Option<SocketAddr>),
    access: &Access,
) {
    if let Some(listen) = listen.filter(|listen| !listen.ip().is_loopback())
        && access.auth == Auth::Trust
    {
        let found =
            format!("\"{listen}\" can be reached from other machines, and `auth = \"trust\"` asks nobody who they are");
        let fix = format!("write `auth = \"scram\"` and `users_file`, or listen at \"127.0.0.1:{}\"", listen.port());
        gateway.complain_of("listen", typed.listen, &found, &fix);
    }
    if let Some(http) = http.filter(|http| !http.ip().is_loopback())
        && !gateway.has("http_tokens_file")
    {
        let found = format!("\"{http}\" can be reached from other machines, and nobody needs a token");
        let fix = format!("write `http_tokens_file`, or serve it at \"127.0.0.1:{}\"", http.port());
        gateway.complain_of("http", typed.http, &found, &fix);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use crate::auth::private;

    const CLUSTER: &str = "[[cluster]]\nname = \"a\"\nkind = \"postgres\"\naddress = \"db:1\"\n";

    #[test]
    fn secrets_that_others_can_read_are_refused_with_their_place_and_verifiers_are_warned_of() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str, mode| {
            let path = dir.path().join(name);
            private::write(&path, text);
            set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            path
        };
        let tokens = file("tokens", "0123456789abcdef01234567\n", 0o644);
        let password = file("password", "opensesame\n", 0o604);
        let credentials = file("credentials", "ann analyst opensesame\n", 0o666);
        let of_user = format!("user = \"me\"\npassword_file = {password:?}\n");
        let of_all = format!("credentials_file = {credentials:?}\n[gateway]\nhttp_tokens_file = {tokens:?}\n");
        let text = format!("{CLUSTER}{of_user}{of_all}");
        let said = super::super::parse(&text, Path::new("p.toml")).expect_err("others can read them").to_string();
        expect_test::expect![[r#"
            p.toml:6:17: cluster "a".password_file: "DIR/password": others on this machine can read it (its mode is 0604); take that from them: `chmod 600`
            p.toml:7:20: cluster "a".credentials_file: DIR/credentials: others on this machine can write to it (its mode is 0666); take that from them: `chmod 600`
            p.toml:9:20: gateway.http_tokens_file: DIR/tokens: others on this machine can read it (its mode is 0644); take that from them: `chmod 600`"#]]
        .assert_eq(&said.replace(&dir.path().display().to_string(), "DIR"));

        let access = |mode| {
            let users = file("users", &crate::auth::users::line("ann", "opensesame"), mode);
            let text = format!("{CLUSTER}[gateway]\nauth = \"scram\"\nusers_file = {users:?}\n");
            super::super::parse(&text, Path::new("p.toml")).map(|settings| settings.access)
        };
        assert_eq!(access(0o600).expect("it is kept").exposed(), None);
        assert!(access(0o644).expect("verifiers may be read").exposed().is_some_and(|said| said.contains("chmod 600")));
        assert!(access(0o620).expect_err("whoever writes it comes in").to_string().contains("can write to it"));
    }
}
