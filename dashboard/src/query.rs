//! The part of an address behind the `?`, in bytes: the name of a queue need not be text.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

pub struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    fn of(text: &str) -> Query {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        Query(pairs.map(|(name, value)| (name.to_string(), percent_decode_str(value).collect())).collect())
    }

    /// The bytes of a value; none where it is not given.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.bytes(name)).into_owned()
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, Infallible> {
        Ok(Query::of(parts.uri.query().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_bytes_comes_through() {
        let name: Vec<u8> = (0..=255).collect();
        let query = Query::of(&format!("queue={}&state=ready", crate::sample::key(&name)));
        assert_eq!((query.bytes("queue"), query.text("state")), (name, "ready".to_string()));
        assert!(query.bytes("id").is_empty());
    }
}
