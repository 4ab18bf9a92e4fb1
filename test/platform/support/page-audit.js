/** A script for a page, whose `findUnreadable` returns the texts with too little contrast. */

const MIN_CONTRAST = 4.5;

const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
const colors = new Map();

/** Converts any CSS color to red, green and blue from 0 to 255, and alpha from 0 to 1. */
function toRgba(color) {
  if (!colors.has(color)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    colors.set(color, [red, green, blue, alpha / 255]);
  }
  return colors.get(color);
}

/** Returns the color that is seen if one is in front of another. */
function blend([r, g, b, a], [R, G, B, A]) {
  const alpha = a + A * (1 - a);
  const mix = (front, back) => (alpha === 0 ? 0 : (front * a + back * A * (1 - a)) / alpha);
  return [mix(r, R), mix(g, G), mix(b, B), alpha];
}

/** The relative luminance of a color (WCAG 2.2, section 6). */
function getLuminance(color) {
  const [r, g, b] = color.map((value) =>
    value <= 0.04045 * 255 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/**
 * Returns the contrast of a text with its background.
 *
 * @param styles the styles of the element, or of its pseudo-element, and of all its ancestors
 */
function getContrast(styles) {
  let text = toRgba(styles[0].webkitTextFillColor);
  let background = [0, 0, 0, 0];
  for (const { backgroundColor, backgroundImage, opacity } of styles) {
    if (backgroundImage.includes('gradient')) return 0;
    [text, background] = [text, background].map((color) => {
      const [red, green, blue, alpha] = blend(color, toRgba(backgroundColor));
      return [red, green, blue, alpha * opacity];
    });
  }
  const [dark, light] = [text, background]
    .map((color) => getLuminance(blend(color, [255, 255, 255, 1])))
    .toSorted((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** Returns the rectangles of the lines of a text. */
function getLines(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  return [...range.getClientRects()].filter(({ width, height }) => width * height > 0);
}

const shorten = (text) => text.trim().replaceAll(/\s+/g, ' ').slice(0, 40);

/** Returns the texts of an element, with the pseudo-elements that they are in. */
function getTexts(element) {
  const texts = [...element.childNodes]
    .filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() && getLines(node).length)
    .map(({ data }) => [data]);
  for (const pseudo of ['::before', '::after']) {
    const { content } = getComputedStyle(element, pseudo);
    if (/^".*[\p{L}\p{N}]/u.test(content)) texts.push([content, pseudo]);
  }
  const { value, placeholder } = element;
  if (element.matches('input, textarea, select') && value) texts.push([value]);
  else if (placeholder) texts.push([placeholder, '::placeholder']);
  return texts;
}

globalThis.findUnreadable = () => {
  const elements = [...document.querySelectorAll('body *')].filter((element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true }),
  );
  const found = new Set();
  let count = 0;
  for (const element of elements) {
    for (const [text, pseudo] of getTexts(element)) {
      count++;
      const styles = pseudo === undefined ? [] : [getComputedStyle(element, pseudo)];
      for (let ancestor = element; ancestor !== null; ancestor = ancestor.parentElement)
        styles.push(getComputedStyle(ancestor));
      const contrast = getContrast(styles);
      const name = `${element.localName}.${element.className}${pseudo ?? ''}`;
      if (contrast < MIN_CONTRAST)
        found.add(`${shorten(text)} has a contrast of ${contrast.toFixed(2)}: ${name}`);
    }
  }
  return { count, found: [...found] };
};
