//! Times of day as sar prints them in the languages of the C library: `08:32:50`, `08:32:50 PM`,
//! `8時32分50秒`, `UTC 08:32:50 م`.
//!
//! The forms are those of `t_fmt` and `am_pm` of glibc's locales.

const HALVES: &[(&str, &str)] = &[
    ("AM", "PM"),
    ("am", "pm"),
    ("a.m.", "p.m."),
    ("πμ", "μμ"),
    ("ص", "م"),
    ("پن", "دن"),
    ("पूर्वाह्न", "अपराह्न"),
    ("म.पू.", "म.नं."),
    ("फुं.", "बेलासे."),
    ("बिहिनियाँ", "मंझनियाँ"),
    ("पूर্বাহ্ণ", "অপরাহ্ণ"),
    ("পূর্বাহ্ণ", "অপরাহ্ণ"),
    ("পূৰ্ব্বাহ্ন", "অপৰাহ্ন"),
    ("ਸਵੇਰੇ", "ਸ਼ਾਮ"),
    ("સવારે", "સાંજે"),
    ("காலை", "மாலை"),
    ("ఉ.", "సా."),
    ("ಪೂರ್ವಾಹ್ನ", "ಅಪರಾಹ್ನ"),
    ("രാവിലെ", "വൈകു"),
    ("နံနက်", "ညနေ"),
    ("上午", "下午"),
    ("午前", "午後"),
    ("오전", "오후"),
    ("SA", "CH"),
    ("PD", "MD"),
    ("WD", "WB"),
    ("AN", "EW"),
    ("ጡዋት", "ከሰዓት"),
    ("ጽባሕ", "ምሴት"),
    ("ማለዶ", "ቃማ"),
    ("saaku", "carra"),
    ("soodo", "hawwaro"),
    ("subaxnimo", "galabnimo"),
    ("asubuhi", "alasiri"),
    ("hengihengi", "efiafi"),
];
/// What may stand behind the numbers of hours, minutes and seconds.
const UNITS: &[&str] = &["時", "时", "點", "시", "分", "분", "秒", "초"];
/// First headings of sar's tables in capitals, as zones are.
const CAPITALS: &[&str] = &[
    "CPU",
    "INTR",
    "DEV",
    "IFACE",
    "TTY",
    "FAN",
    "TEMP",
    "IN",
    "BUS",
    "BAT",
    "FILESYSTEM",
    "MOUNTPOINT",
    "FCHOST",
    "COM",
    "LINUX",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalizedTime {
    pub(super) second: i64,
    /// The language of its half of the day, if it has one.
    pub(super) half: Option<Half>,
    pub(super) zoned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// AM or PM.
    English,
    Other,
}

/// The time that a line's first words are, and how many words it takes: as many as possible.
pub(super) fn parse_leading(words: &[&str]) -> Option<(LocalizedTime, usize)> {
    let most = words.len().min(5);
    (1..=most).rev().find_map(|count| Some((parse(words.get(..count)?)?, count)))
}

pub(super) fn parse(words: &[&str]) -> Option<LocalizedTime> {
    let mut numbers: Vec<i64> = Vec::new();
    let mut time = LocalizedTime { second: 0, half: None, zoned: false };
    let mut later = false;
    for (place, word) in words.iter().enumerate() {
        let (digits, rest) = take_numbers(word, &mut numbers)?;
        if let Some((second, english)) = recognize_half(rest) {
            if time.half.is_some() {
                return None;
            }
            later = second;
            time.half = Some(if english { Half::English } else { Half::Other });
        } else if !digits {
            // A zone stands before or behind all numbers.
            let zone = (2..=5).contains(&word.len())
                && word.bytes().all(|letter| letter.is_ascii_uppercase());
            if !zone || CAPITALS.contains(word) || time.zoned || !(place == 0 || numbers.len() == 3)
            {
                return None;
            }
            time.zoned = true;
        } else if !rest.is_empty() {
            return None;
        }
    }
    let [mut hour, minute, second] = numbers.try_into().ok()?;
    if time.half.is_some() {
        if hour > 12 {
            return None;
        }
        hour = hour % 12 + if later { 12 } else { 0 };
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    time.second = hour * 3600 + minute * 60 + second;
    Some(time)
}

/// Whether a word has numbers, and the rest of it without units and separators.
fn take_numbers<'a>(word: &'a str, numbers: &mut Vec<i64>) -> Option<(bool, &'a str)> {
    let mut digits = false;
    let mut rest = word;
    loop {
        let (length, number) = parse_leading_number(rest);
        if length == 0 {
            break;
        }
        digits = true;
        if numbers.len() == 3 {
            return None;
        }
        numbers.push(number?);
        let (_, behind) = rest.split_at_checked(length)?;
        let unit = UNITS.iter().find_map(|unit| behind.strip_prefix(unit));
        let separated = || behind.strip_prefix([':', '.', '፡']);
        rest = match unit.or_else(separated) {
            Some(behind) => behind,
            None => {
                rest = behind;
                break;
            }
        };
    }
    // A half of the day may stand right before or behind the numbers.
    if !digits && let Some(begins) = rest.find(|letter: char| decimal_digit(letter).is_some()) {
        let (first, inner) = rest.split_at_checked(begins)?;
        recognize_half(first)?;
        let (found, left) = take_numbers(inner, numbers)?;
        return (found && left.is_empty()).then_some((true, first));
    }
    Some((digits, rest))
}

/// Whether a half of the day is the second, and whether it is in English.
fn recognize_half(word: &str) -> Option<(bool, bool)> {
    let mut all = HALVES.iter().enumerate();
    all.find_map(|(place, (first, second))| {
        (word == *first || word == *second).then_some((word == *second, place < 3))
    })
}

/// The length of a leading number, and the number; `None` if it has more than two digits.
fn parse_leading_number(text: &str) -> (usize, Option<i64>) {
    let (mut length, mut count, mut number) = (0, 0, 0);
    for letter in text.chars() {
        let Some(digit) = decimal_digit(letter) else { break };
        length += letter.len_utf8();
        count += 1;
        number = number * 10 + digit;
        if count > 2 {
            return (length, None);
        }
    }
    (length, (count > 0).then_some(number))
}

/// A decimal digit of the scripts in which the C library's locales print dates.
pub(super) fn decimal_digit(letter: char) -> Option<i64> {
    /// Zero in ASCII, Arabic, Persian, Devanagari, Bengali, Oriya, and Burmese and Shan.
    const ZEROS: [char; 8] = ['0', '٠', '۰', '०', '০', '୦', '၀', '႐'];
    let count_of =
        |zero: char| u32::from(letter).checked_sub(u32::from(zero)).filter(|digit| *digit < 10);
    ZEROS.into_iter().find_map(count_of).map(i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `sar -u` of sysstat 12.6.1 printed 12:21:55 UTC, by `LC_ALL`.
    const PRINTED: &[&str] = &[
        "12:21:55",
        "12:21:55 PM",
        "12.21.55",
        "12時21分55秒",
        "12时21分55秒",
        "12시 21분 55초",
        "UTC 12:21:55 م",
        "12:21:55 अपराह्न UTC",
        "12:21:55 UTC",
        "۱۲:۲۱:۵۵",
    ];

    #[test]
    fn a_time_is_read_in_every_language() {
        for printed in PRINTED {
            let words: Vec<&str> = printed.split_whitespace().chain(["all", "57.29"]).collect();
            let (time, count) = parse_leading(&words).unwrap_or_else(|| panic!("{printed}"));
            assert_eq!(
                (time.second, count),
                (12 * 3600 + 21 * 60 + 55, words.len() - 2),
                "{printed}"
            );
        }
        // `LC_ALL=te_IN sar`, and zh_HK: the half stands before the numbers.
        for (printed, hour) in [
            ("సా.01.05.09 IST", 13),
            ("ఉ.12.05.09 IST", 0),
            ("下午 01時05分09秒 HKT", 13),
            ("上午 12時05分09秒 HKT", 0),
        ] {
            let words: Vec<&str> = printed.split_whitespace().collect();
            assert_eq!(
                parse(&words).map(|time| time.second),
                Some(hour * 3600 + 5 * 60 + 9),
                "{printed}"
            );
        }
    }

    #[test]
    fn headings_and_values_are_no_part_of_it() {
        for (line, count) in [
            ("12:21:55 CPU %user", 1),
            ("12:21:55 PM CPU %user", 2),
            ("12:21:55 INTR intr/s", 1),
            ("12:21:55 all 57.29 32.66", 1),
            ("12:21:55 UTC CPU %user", 2),
            ("12:21:55 LINUX RESTART (2 CPU)", 1),
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(parse_leading(&words).map(|(_, count)| count), Some(count), "{line}");
        }
        for line in [
            "Average: all 1.0",
            "kl. 12.21 +0000 CPU",
            "25:00:00",
            "12:61:00",
            "12:00",
            "1234:00:00",
            "",
            "12:00:00:00",
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(parse_leading(&words), None, "{line}");
        }
        assert_eq!(parse(&["13:00:00", "PM"]), None);
    }
}
