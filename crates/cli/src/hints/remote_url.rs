//! URLs in place of paths: which stores cannot be read or written, and how to copy the files.

use std::path::Path;

use hugewise_model::escape::shell;
use hugewise_report::plain;

fn url_scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let is_one = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    (!scheme.is_empty() && scheme.chars().all(is_one)).then_some(scheme)
}

/// What follows a `?` or precedes an `@` may be a key.
pub(crate) fn without_key(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let shown = match text.split_once("://") {
        Some((scheme, rest)) => {
            let (place, behind) =
                rest.split_once('/').map_or((rest, None), |(place, behind)| (place, Some(behind)));
            let place = place.rsplit('@').next().unwrap_or_default();
            behind.map_or(format!("{scheme}://{place}"), |behind| {
                format!("{scheme}://{place}/{behind}")
            })
        }
        None => text.to_owned(),
    };
    plain::escape_line(&shown).into_owned()
}

/// Why captures cannot be read there, and what to do.
pub(crate) fn not_read(path: &Path) -> Option<String> {
    let scheme = url_scheme(path)?;
    let shown = without_key(path);
    let instead = match scheme {
        "az" if path.to_string_lossy().contains('?') => {
            return Some(format!(
                "{shown}: a token is a key, and is not given in the address; put it into the file \
                     of --credentials as sas_token"
            ));
        }
        "s3" | "gs" | "az" => return None,
        "s3a" | "s3n" => "that name is Spark's; write s3://BUCKET/PREFIX".to_owned(),
        "file" => format!(
            "give the path alone: {}",
            shell::quote_word(shown.trim_start_matches("file://"))
        ),
        "http" | "https" => "fetch the capture first, for example with curl -O".to_owned(),
        "abfs" | "abfss" | "wasb" | "wasbs" => {
            "that name is Hadoop's; write az://CONTAINER/PREFIX".to_owned()
        }
        _ => "copy the captures to a folder first".to_owned(),
    };
    Some(format!(
        "collect can't read {shown}: it reads files, folders, s3://BUCKET/PREFIX, \
             gs://BUCKET/PREFIX and az://CONTAINER/PREFIX; {instead}"
    ))
}

/// Why tables cannot be written there, and what to do.
pub(crate) fn not_written(lake: &Path) -> Option<String> {
    let scheme = url_scheme(lake)?;
    let shown = without_key(lake);
    let word = shell::quote_word(&shown);
    let copy = match scheme {
        "s3" | "s3a" | "s3n" => {
            let (_, place) = shown.split_once("://")?;
            format!("aws s3 sync lake {}", shell::quote_word(&format!("s3://{place}")))
        }
        "file" => {
            return Some(format!(
                "--out takes a path: {}",
                shell::quote_word(shown.trim_start_matches("file://"))
            ));
        }
        "gs" => format!("gcloud storage rsync --recursive lake {word}"),
        "az" | "abfs" | "abfss" | "wasb" | "wasbs" => {
            "azcopy sync lake https://ACCOUNT.blob.core.windows.net/CONTAINER".to_owned()
        }
        _ => format!("copy the folder to {word}"),
    };
    Some(format!(
        "{shown} is not a folder, and collect writes tables only to folders: run it with --out \
             lake, keep that folder for the next run, and copy \
         it after each: {copy}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_none() {
        for path in ["captures", "/srv/captures", "./az://x", "a b://x", "://x", "-"] {
            assert_eq!(
                (not_read(path.as_ref()), not_written(path.as_ref())),
                (None, None),
                "{path}"
            );
        }
        for store in ["s3://captures/prod", "gs://captures/prod", "az://captures/prod"] {
            assert_eq!(not_read(store.as_ref()), None);
        }
    }

    /// A presigned address is a key.
    #[test]
    fn no_key_is_printed() {
        for address in [
            "https://store/in/db7?sig=SECRET",
            "https://me:SECRET@store/in/db7#SECRET",
            "abfss://store/in/db7?SECRET",
        ] {
            let (read, written) =
                (not_read(address.as_ref()).unwrap(), not_written(address.as_ref()).unwrap());
            assert!(!format!("{read}{written}").contains("SECRET"), "{read}\n{written}");
            assert!(read.contains("://store/in/db7"), "{read}");
        }
        let odd = not_written("gs://lakes/a b".as_ref()).unwrap();
        assert!(odd.ends_with("rsync --recursive lake 'gs://lakes/a b'"), "{odd}");
    }
}
