//! A scene as SVG: text stays text, in a font that the file holds.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::font::{FAMILY, WOFF2};
use super::png::png_of_image;
use super::{Align, Colour, Image, Point, Scene, Segment, Shape, Stroke, Text};

impl Scene {
    /// The scene as an SVG file.
    pub(in crate::figures) fn svg(&self) -> String {
        let area = self.area();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}mm\" height=\"{}mm\" viewBox=\"0 0 {} {}\">\n\
             <style>@font-face{{font-family:\"{FAMILY}\";src:url(data:font/woff2;base64,{}) format(\"woff2\")}}\
             text{{font-family:\"{FAMILY}\",Helvetica,Arial,sans-serif;white-space:pre}}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<g stroke-linejoin=\"round\">\n",
            number(self.width_mm),
            number(self.height_mm),
            number(area.right),
            number(area.bottom),
            BASE64_STANDARD.encode(WOFF2),
        );
        self.shapes.iter().for_each(|shape| svg.push_str(&element(shape)));
        svg.push_str("</g>\n</svg>\n");
        svg
    }
}

fn element(shape: &Shape) -> String {
    match shape {
        Shape::Path { outline, fill, stroke } => path(outline, *fill, *stroke),
        Shape::Text(text) => text_element(text),
        Shape::Image(image) => image_element(image),
    }
}

fn path(outline: &[Segment], fill: Option<Colour>, stroke: Option<Stroke>) -> String {
    let data: String = outline.iter().map(segment).collect();
    let fill = fill.map_or_else(|| "none".to_owned(), Colour::css);
    let mut element = format!("<path d=\"{data}\" fill=\"{fill}\"");
    if let Some(stroke) = stroke {
        let _ = write!(element, " stroke=\"{}\" stroke-width=\"{}\"", stroke.colour.css(), number(stroke.width_pt));
        if !stroke.dashes_pt.is_empty() {
            let dashes: Vec<String> = stroke.dashes_pt.iter().map(|length| number(*length)).collect();
            let _ = write!(element, " stroke-dasharray=\"{}\"", dashes.join(" "));
        }
    }
    element + "/>\n"
}

fn segment(segment: &Segment) -> String {
    let point = |(x, y): Point| format!("{} {}", number(x), number(y));
    match *segment {
        Segment::Move(to) => format!("M{}", point(to)),
        Segment::Line(to) => format!("L{}", point(to)),
        Segment::Curve(first, second, to) => format!("C{} {} {}", point(first), point(second), point(to)),
        Segment::Close => "Z".to_owned(),
    }
}

fn text_element(text: &Text) -> String {
    let (x, y) = (number(text.at.0), number(text.at.1));
    let anchor = match text.align {
        Align::Begin => "",
        Align::Middle => " text-anchor=\"middle\"",
        Align::End => " text-anchor=\"end\"",
    };
    let turned = if text.is_upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"{anchor}{turned}>{}</text>\n",
        number(text.size_pt),
        text.colour.css(),
        escaped(&text.text)
    )
}

fn image_element(image: &Image) -> String {
    let place = image.place;
    format!(
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
         style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>\n",
        number(place.left),
        number(place.top),
        number(place.width()),
        number(place.height()),
        BASE64_STANDARD.encode(png_of_image(image))
    )
}

/// As short as a hundredth of a point allows.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text that no markup can begin in. Characters that XML forbids are left out.
fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|character| !character.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::Rect;
    use super::*;

    #[test]
    fn a_file_has_its_size_its_font_and_text_that_stays_text() {
        let mut scene = Scene::new(85.0, 60.5);
        scene.label((10.0, 10.0), Align::End, 7.0, Colour(1, 2, 255), "<KV> & µs");
        scene.upright((4.0, 5.0), Align::Middle, 7.0, Colour(0, 0, 0), "up");
        let svg = scene.svg();
        assert!(svg.contains("width=\"85mm\" height=\"60.5mm\" viewBox=\"0 0 240.94 171.5\""), "{svg}");
        assert!(svg.contains("src:url(data:font/woff2;base64,d09GMg"), "{svg}");
        assert!(svg.contains("fill=\"#0102ff\" text-anchor=\"end\">&lt;KV&gt; &amp; µs</text>"), "{svg}");
        assert!(svg.contains("rotate(-90 "), "{svg}");
    }

    #[test]
    fn shapes_are_written_with_two_decimals() {
        let mut scene = Scene::new(10.0, 10.0);
        let dashed = Stroke { colour: Colour(0, 0, 0), width_pt: 0.5, dashes_pt: &[3.0, 1.5] };
        scene.line(&[(0.0, -0.001), (1.255, 2.0)], dashed);
        scene.rect(Rect { left: 0.0, top: 1.0, right: 2.0, bottom: 3.0 }, Colour::WHITE);
        let svg = scene.svg();
        let line = "<path d=\"M0 0L1.25 2\" fill=\"none\" stroke=\"#000000\" stroke-width=\"0.5\" stroke-dasharray=\"3 1.5\"/>";
        assert!(svg.contains(line) || svg.contains(&line.replace("1.25", "1.26")), "{svg}");
        assert!(svg.contains("<path d=\"M0 1L2 1L2 3L0 3Z\" fill=\"#ffffff\"/>"), "{svg}");
    }
}
