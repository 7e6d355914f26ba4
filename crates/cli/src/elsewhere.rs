//! Addresses where a path is meant: which store cannot be read or written there, and how people bring the files over.

use std::path::Path;

/// What comes before `://`, where the path is an address.
fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let is_one = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    (!scheme.is_empty() && scheme.chars().all(is_one)).then_some(scheme)
}

/// Why captures cannot be read there, and what to do; none of a path, and of a bucket that is read.
pub(crate) fn not_read(path: &Path) -> Option<String> {
    let shown = path.display();
    let instead = match scheme(path)? {
        "s3" => return None,
        "s3a" | "s3n" => "that name is Spark's; write s3://BUCKET/PREFIX".to_owned(),
        "file" => format!("give the path alone: {}", shown.to_string().trim_start_matches("file://")),
        "http" | "https" => format!("fetch the capture first: curl -O {shown}"),
        "gs" => format!("copy the captures to a folder first: gcloud storage cp --recursive {shown} FOLDER"),
        "az" | "abfs" | "abfss" | "wasb" | "wasbs" => format!(
            "copy the captures to a folder first: azcopy copy --recursive {} FOLDER",
            "https://ACCOUNT.blob.core.windows.net/CONTAINER"
        ),
        _ => "copy the captures to a folder first".to_owned(),
    };
    Some(format!("collect can't read {shown}: it reads files, folders and s3://BUCKET/PREFIX; {instead}"))
}

/// Why tables cannot be written there, and what to do; none of a path.
pub(crate) fn not_written(lake: &Path) -> Option<String> {
    let shown = lake.display();
    let copy = match scheme(lake)? {
        "s3" | "s3a" | "s3n" => {
            let (_, place) = lake.to_str()?.split_once("://")?;
            format!("aws s3 sync lake s3://{place}")
        }
        "file" => return Some(format!("--out takes a path: {}", shown.to_string().trim_start_matches("file://"))),
        "gs" => format!("gcloud storage rsync --recursive lake {shown}"),
        "az" | "abfs" | "abfss" | "wasb" | "wasbs" => {
            "azcopy sync lake https://ACCOUNT.blob.core.windows.net/CONTAINER".to_owned()
        }
        _ => format!("copy the folder to {shown}"),
    };
    Some(format!(
        "{shown} is not a folder, and collect writes tables only to folders: run it with --out lake, keep that folder for the next run, and copy \
         it after each: {copy}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_none() {
        for path in ["captures", "/srv/captures", "./az://x", "a b://x", "://x", "-"] {
            assert_eq!((not_read(path.as_ref()), not_written(path.as_ref())), (None, None), "{path}");
        }
        assert_eq!(not_read("s3://captures/prod".as_ref()), None);
    }
}
