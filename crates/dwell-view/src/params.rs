//! What a request asks for.

use std::ops::Range;

use crate::error::ApiError;

/// Parameters of a request, some of which may be given several times.
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Those of a query, all of which must be known.
    pub(crate) fn of(query: Option<&str>, known: &[&str]) -> Result<Self, ApiError> {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned();
        let params = Self(pairs.collect());
        match params.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => {
                let refusal = ApiError::bad_request(format!("no parameter {name:?} is known here"));
                let known = (!known.is_empty()).then(|| format!("known are {}", known.join(", ")));
                Err(known.into_iter().fold(refusal, ApiError::hint))
            }
            None => Ok(params),
        }
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The value of a parameter that is given once at most.
    pub(crate) fn optional(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.all(name)[..] {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(ApiError::bad_request(format!("{name} is given more than once"))),
        }
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.optional(name)?.ok_or_else(|| ApiError::bad_request(format!("{name} is missing")))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let parsed = |text: &str| {
            text.parse().map_err(|_| ApiError::bad_request(format!("{name} is {text:?}, and a whole number is needed")))
        };
        self.optional(name)?.map(parsed).transpose()
    }

    /// The window from `begin_ns` up to but not including `end_ns`; none if neither is given.
    pub(crate) fn window_ns(&self) -> Result<Option<Range<u64>>, ApiError> {
        let (begin_ns, end_ns) = (self.number("begin_ns")?, self.number("end_ns")?);
        if begin_ns.is_none() && end_ns.is_none() {
            return Ok(None);
        }
        let window = begin_ns.unwrap_or(0)..end_ns.unwrap_or(u64::MAX);
        if window.start > window.end {
            let Range { start, end } = window;
            return Err(ApiError::bad_request(format!("the window begins at {start} and ends before that, at {end}")));
        }
        Ok(Some(window))
    }

    pub(crate) fn required_number(&self, name: &str) -> Result<u64, ApiError> {
        self.number(name)?.ok_or_else(|| ApiError::bad_request(format!("{name} is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_unknown_or_repeated_ones_are_refused() {
        let params = Params::of(Some("run=a%2Fb+c&run=d&limit=7"), &["run", "limit"]).ok();
        let params = params.unwrap_or(Params(Vec::new()));
        assert_eq!(params.all("run"), ["a/b c", "d"]);
        assert_eq!(params.number("limit").ok().flatten(), Some(7));
        assert!(params.required("run").is_err() && params.required("table").is_err());
        assert!(Params::of(Some("rnu=a"), &["run"]).is_err());
        let window = |query| Params::of(Some(query), &["begin_ns", "end_ns"]).and_then(|params| params.window_ns());
        assert_eq!(window("begin_ns=3&end_ns=3").ok().flatten(), Some(3..3));
        assert_eq!(window("end_ns=3").ok().flatten(), Some(0..3));
        assert!(window("").is_ok_and(|window| window.is_none()) && window("begin_ns=4&end_ns=3").is_err());
        assert!(Params::of(Some("limit=-1"), &["limit"]).is_ok_and(|params| params.number("limit").is_err()));
    }
}
