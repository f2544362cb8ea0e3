// Pictures of labels, probabilities and marks, at the size of the image.

export function blank(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

function rgb(color) {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}

// Planes of bytes through a table of 256 colours (r, g, b, a each).
function painted(plane, width, height, table) {
  const canvas = blank(width, height);
  const context = canvas.getContext("2d");
  const data = context.createImageData(width, height);
  const pixels = new Uint32Array(data.data.buffer);
  const colors = new Uint32Array(new Uint8Array(table.flat()).buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = colors[plane[i]];
  context.putImageData(data, 0, 0);
  return canvas;
}

export function maskPicture(labels, width, height, colors) {
  const table = Array.from({ length: 256 }, (_, k) =>
    k > 0 && k < colors.length ? [...rgb(colors[k]), 255] : [0, 0, 0, 0]);
  return painted(labels, width, height, table);
}

// From blue over grey to yellow: readable for all kinds of colour vision.
const RAMP = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];

export function probabilityPicture(plane, width, height) {
  const table = Array.from({ length: 256 }, (_, k) => {
    const at = (k / 255) * (RAMP.length - 1);
    const low = Math.min(Math.floor(at), RAMP.length - 2);
    const mixed = RAMP[low].map((v, c) => Math.round(v + (at - low) * (RAMP[low + 1][c] - v)));
    return [...mixed, 255];
  });
  return painted(plane, width, height, table);
}

export function doubtPicture(plane, width, height) {
  const table = Array.from({ length: 256 }, (_, k) => [255, 0, 200, Math.round(0.9 * k)]);
  return painted(plane, width, height, table);
}

// The borders of labels as paths along the edges of pixels, one path a colour: sharp at any zoom.
export function contours(labels, width, height) {
  const paths = new Map();
  const line = (label, x0, y0, x1, y1) => {
    let path = paths.get(label);
    if (!path) paths.set(label, (path = new Path2D()));
    path.moveTo(x0, y0);
    path.lineTo(x1, y1);
  };
  const border = (a, b) => (a === b ? 0 : Math.max(a, b));
  for (let y = 1; y < height; y++) {
    const row = y * width;
    let begin = 0, label = 0;
    for (let x = 0; x <= width; x++) {
      const here = x < width ? border(labels[row + x], labels[row - width + x]) : 0;
      if (here === label) continue;
      if (label) line(label, begin, y, x, y);
      begin = x;
      label = here;
    }
  }
  for (let x = 1; x < width; x++) {
    let begin = 0, label = 0;
    for (let y = 0; y <= height; y++) {
      const at = y * width + x;
      const here = y < height ? border(labels[at], labels[at - 1]) : 0;
      if (here === label) continue;
      if (label) line(label, x, begin, x, y);
      begin = y;
      label = here;
    }
  }
  return paths;
}

// Strokes are painted in their order; the rubber takes away what is below it.
export function paintStroke(context, stroke, colors) {
  const { points, radius, label } = stroke;
  context.globalCompositeOperation = label < 0 ? "destination-out" : "source-over";
  context.strokeStyle = context.fillStyle = label < 0 ? "#000" : colors[label];
  context.lineWidth = 2 * radius;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  if (points.length === 2) {
    context.arc(points[0], points[1], radius, 0, 2 * Math.PI);
    context.fill();
  } else {
    context.moveTo(points[0], points[1]);
    for (let i = 2; i < points.length; i += 2) context.lineTo(points[i], points[i + 1]);
    context.stroke();
  }
}

const RIM = new Array(256).fill("#00000099");

export function marksPicture(marks, width, height, colors) {
  const canvas = blank(width, height);
  const context = canvas.getContext("2d");
  for (const mark of marks) {
    if (mark.kind !== "stroke") continue;
    // A dark rim keeps a stroke apart from the mask, which has the same colour.
    if (mark.label >= 0) paintStroke(context, { ...mark, radius: mark.radius + 1 }, RIM);
    paintStroke(context, mark, colors);
  }
  return canvas;
}

export function areas(labels, count) {
  const found = new Array(count).fill(0);
  for (let i = 0; i < labels.length; i++) found[labels[i]]++;
  return found;
}
