//! The chart as a picture.
//!
//! Purpose: renders the SVG, at twice its size, with the DejaVu fonts of Debian's package
//! fonts-dejavu-core. Fonts are loaded from files by path instead of from the system's configuration,
//! so that the same picture comes out on every machine.
//!
//! Tested below.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{fontdb::Database, Options, Tree};

const FONT_DIR: &str = "/usr/share/fonts/truetype/dejavu";
const FONTS: [&str; 2] = ["DejaVuSans.ttf", "DejaVuSans-Bold.ttf"];
const SCALE: f32 = 2.0;

/// Writes `svg` to `path` as PNG.
pub fn write(svg: &str, path: &Path) -> Result<(), String> {
    let mut fonts = Database::new();
    for name in FONTS {
        let file = Path::new(FONT_DIR).join(name);
        let data = fs::read(&file).map_err(|e| {
            format!("{}: {e} (install the package fonts-dejavu-core)", file.display())
        })?;
        fonts.load_font_data(data);
    }
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| format!("the chart is not SVG: {e}"))?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE) as u32, (size.height() * SCALE) as u32);
    let mut pixels = Pixmap::new(width, height).ok_or("the chart has no size")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    let bytes = pixels.encode_png().map_err(|e| e.to_string())?;
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_becomes_a_picture_of_twice_its_size() {
        if !Path::new(FONT_DIR).join(FONTS[0]).exists() {
            eprintln!("skipped: the DejaVu fonts are not installed");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.png");
        let svg = r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 20">
            <rect width="30" height="20" fill="red"/></svg>"#;
        write(svg, &file).unwrap();
        let bytes = fs::read(&file).unwrap();
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
        // Width and height follow in the first chunk.
        assert_eq!(bytes[16..24], [0, 0, 0, 60, 0, 0, 0, 40]);
        assert!(write("no svg", &file).is_err());
    }
}
