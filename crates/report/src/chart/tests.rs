use super::*;

/// What every chart must be, whatever is in it.
pub(crate) fn is_sound(svg: &str) {
    assert!(svg.starts_with("<svg class=\"chart\" xmlns="), "{svg}");
    assert!(svg.contains("<title>") && svg.contains("<desc>") && svg.contains("role=\"img\""));
    for bad in ["NaN", "inf", "<script", " style=", "href", "onload"] {
        assert!(!svg.contains(bad), "{bad} in {svg}");
    }
    // Every element is closed: void ones as maud writes them are none in XML.
    let opened = svg.matches('<').count() - svg.matches("</").count();
    let closed = svg.matches("</").count() + svg.matches("/>").count();
    assert_eq!(opened, closed, "{svg}");
}

#[test]
fn a_file_of_its_own_brings_its_style() {
    let caption = Caption { title: "a < b & c".into(), description: "<script>".into() };
    let svg = Svg { caption, height: 20.0, body: html! {} };
    let text = svg.to_standalone_svg();
    assert!(text.contains("<title>a &lt; b &amp; c</title>"), "{text}");
    assert!(text.contains("prefers-color-scheme:dark") && !text.contains("<script>"));
    assert!(!svg.to_inline_markup().into_string().contains("<style>"));
}

#[test]
fn a_legend_that_is_too_long_goes_on_below() {
    let names =
        ["4 KiB pages, as measured", "2 MiB pages, as measured", "1 GiB pages, as measured"];
    let (body, end) =
        draw_legend(names.into_iter().enumerate().map(|(at, name)| (at, at == 2, name)), 20.0);
    assert!(end > 40.0 && body.into_string().matches("<text").count() == 3);
}
