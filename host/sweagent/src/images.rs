//! The images of a problem statement, which become a part of its text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::web;

/// The largest image.
const LIMIT: usize = 10 << 20;
/// The largest number of images, and the largest size of all images together.
const MOST: usize = 20;
const TOTAL: usize = 20 << 20;

const KINDS: &[&str] = &["image/png", "image/jpeg", "image/jpg", "image/webp"];

/// Appends the images with these URLs to the text. `said` gets the reasons why others are missing.
pub(crate) async fn with_images(
    text: &str,
    urls: &[String],
    variable: &(dyn Fn(&str) -> Option<String> + Sync),
    said: &(dyn Fn(&str) + Sync),
) -> String {
    let mut whole = text.to_owned();
    let (mut count, mut rest) = (0, TOTAL);
    for url in urls {
        let made = match count {
            MOST => Err(format!("there are {MOST} images before it")),
            _ => image(url, rest, variable).await,
        };
        match made {
            Ok((kind, body)) => {
                count += 1;
                rest -= body.len();
                let data = STANDARD.encode(body);
                whole.push_str(&format!("\n\n![{url}](data:{kind};base64,{data})"));
            }
            Err(why) => said(&format!("the image `{url}` is left out: {why}")),
        }
    }
    whole
}

/// The type and the bytes of an image of at most `rest` bytes.
async fn image(
    url: &str,
    rest: usize,
    variable: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<(String, Vec<u8>), String> {
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err("its address does not begin with `https://`".to_owned());
    }
    let client = web::client(url, variable)?;
    // Some servers of images refuse clients that do not name themselves as browsers.
    let request = client
        .get(url)
        .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64) mswea-host");
    let mut response = request
        .send()
        .await
        .map_err(|error| web::in_words(&error))?;
    if !response.status().is_success() {
        return Err(format!("the server answers {}", response.status().as_u16()));
    }
    let kind = response.headers().get("content-type");
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    if !KINDS.contains(&kind.as_str()) {
        return Err(format!(
            "`{kind}` is no type of images that models take (PNG, JPEG, WebP)"
        ));
    }
    let limit = LIMIT.min(rest);
    let is_large = response
        .content_length()
        .is_some_and(|length| length > limit as u64);
    let body = match is_large {
        true => None,
        false => web::body(&mut response, limit).await?,
    };
    let body = body.ok_or_else(|| match limit {
        LIMIT => format!("it is larger than {} MiB", LIMIT >> 20),
        _ => format!("the images together are larger than {} MiB", TOTAL >> 20),
    })?;
    Ok((kind, body))
}
