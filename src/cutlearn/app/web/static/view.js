// The canvas: where the image lies on it (zoom and place), and everything that is drawn over it.

import { paintStroke } from "./layers.js";

const MOST_ZOOM = 40;

export class View {
  constructor(canvas, work) {
    this.canvas = canvas;
    this.work = work;
    this.context = canvas.getContext("2d");
    this.scale = 1; // pixels of the screen for one of the image
    this.left = 0;
    this.top = 0;
    this.pointer = null; // where the brush is, in pixels of the image
    this.waiting = false;
    this.whole = true;
    new ResizeObserver(() => this.resized()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.changed());
  }

  get size() {
    return [this.canvas.clientWidth, this.canvas.clientHeight];
  }

  resized() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = this.size;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    if (this.whole) this.fit();
    this.changed();
  }

  fit() {
    const { width, height } = this.work;
    if (!width) return;
    const [w, h] = this.size;
    this.scale = Math.min(MOST_ZOOM, 0.96 * Math.min(w / width, h / height));
    this.left = (w - width * this.scale) / 2;
    this.top = (h - height * this.scale) / 2;
    this.whole = true;
    this.changed();
  }

  // Zoom by a factor so that a place of the screen stays where it is.
  zoom(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
    const low = 0.2 * Math.min(this.size[0] / this.work.width, this.size[1] / this.work.height);
    const scale = Math.min(MOST_ZOOM, Math.max(Math.min(low, 1), this.scale * factor));
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.whole = false;
    this.changed();
  }

  move(dx, dy) {
    const [w, h] = this.size;
    const { width, height } = this.work;
    const kept = (at, room, length) => Math.min(room - 40, Math.max(40 - length, at));
    this.left = kept(this.left + dx, w, width * this.scale);
    this.top = kept(this.top + dy, h, height * this.scale);
    this.whole = false;
    this.changed();
  }

  // Show a window of the image, (top, left, bottom, right), with what is around it.
  show([top, left, bottom, right]) {
    const [w, h] = this.size;
    this.scale = Math.min(MOST_ZOOM, 0.5 * Math.min(w / (right - left), h / (bottom - top)));
    this.left = w / 2 - (this.scale * (left + right)) / 2;
    this.top = h / 2 - (this.scale * (top + bottom)) / 2;
    this.whole = false;
    this.changed();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.inImage(event.clientX - box.left, event.clientY - box.top);
  }

  inImage(x, y) {
    return { x: (x - this.left) / this.scale, y: (y - this.top) / this.scale };
  }

  // Move as little as is needed to see a place of the image.
  keepSeen({ x, y }) {
    const [w, h] = this.size;
    const sx = this.left + x * this.scale, sy = this.top + y * this.scale;
    const off = (v, room) => (v < 30 ? 30 - v : v > room - 30 ? room - 30 - v : 0);
    const dx = off(sx, w), dy = off(sy, h);
    if (dx || dy) this.move(dx, dy);
  }

  changed() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const { context, work } = this;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (!work.bitmap) return;
    const s = this.scale * ratio;
    context.setTransform(s, 0, 0, s, this.left * ratio, this.top * ratio);
    context.imageSmoothingEnabled = this.scale < 2;
    context.drawImage(work.bitmap, 0, 0);
    this.drawPictures();
    if (work.shown.contour && work.contours) this.drawContours();
    if (work.shown.marks) this.drawMarks();
    if (work.shown.next && work.beliefs?.next) this.drawNext(work.beliefs.next);
    this.drawPointer();
  }

  drawPictures() {
    const { context, work } = this;
    const layer = (picture, alpha) => {
      if (!picture) return;
      context.globalAlpha = alpha;
      context.drawImage(picture, 0, 0);
      context.globalAlpha = 1;
    };
    if (work.shown.probability) layer(work.probability, 0.8);
    else if (work.shown.mask) layer(work.mask, 0.36);
    if (work.shown.doubt) layer(work.doubt, 0.75);
  }

  drawContours() {
    const { context, work } = this;
    context.lineCap = "square";
    context.setLineDash([]);
    for (const [label, path] of work.contours) {
      context.strokeStyle = "rgba(0, 0, 0, .6)";
      context.lineWidth = 4 / this.scale;
      context.stroke(path);
      context.strokeStyle = work.colors[label];
      context.lineWidth = 2 / this.scale;
      context.stroke(path);
    }
  }

  drawMarks() {
    const { context, work } = this;
    context.globalAlpha = 0.7;
    if (work.marksPicture) context.drawImage(work.marksPicture, 0, 0);
    context.globalAlpha = 1;
    const box = work.drawnBox ?? work.box;
    if (box) this.frame(box, "#fff", [6, 4]);
    for (const stroke of [...work.unanswered(), work.drawnStroke]) {
      if (!stroke) continue;
      const shown = stroke.label < 0 ? { ...stroke, label: 0 } : stroke;
      context.globalAlpha = stroke.label < 0 ? 0.35 : 0.8;
      paintStroke(context, shown, work.colors);
      context.globalAlpha = 1;
      context.globalCompositeOperation = "source-over";
    }
  }

  frame([top, left, bottom, right], color, dashes) {
    const { context } = this;
    const edge = [left, top, right - left, bottom - top];
    context.lineWidth = 4 / this.scale;
    context.strokeStyle = "rgba(0, 0, 0, .55)";
    context.setLineDash([]);
    context.strokeRect(...edge);
    context.lineWidth = 2 / this.scale;
    context.strokeStyle = color;
    context.setLineDash(dashes.map((v) => v / this.scale));
    context.strokeRect(...edge);
    context.setLineDash([]);
  }

  drawNext(window) {
    const { context } = this;
    this.frame(window, "#ff5fd2", [2, 4]);
    const size = 12 / this.scale;
    context.font = `600 ${size}px system-ui, sans-serif`;
    const text = "look here";
    const x = window[1], y = window[0] > 1.5 * size ? window[0] : window[2] + 1.5 * size;
    context.fillStyle = "rgba(0, 0, 0, .7)";
    context.fillRect(x, y - 1.4 * size, context.measureText(text).width + size, 1.4 * size);
    context.fillStyle = "#ffb3ea";
    context.fillText(text, x + size / 2, y - 0.4 * size);
  }

  drawPointer() {
    const { context, work } = this;
    const line = 1 / this.scale;
    const ring = (at, color) => {
      for (const [width, ink] of [[3 * line, "rgba(0, 0, 0, .7)"], [1.5 * line, color]]) {
        context.lineWidth = width;
        context.strokeStyle = ink;
        context.beginPath();
        context.arc(at.x, at.y, work.radius, 0, 2 * Math.PI);
        context.stroke();
      }
    };
    const brush = work.tool === "stroke" || work.tool === "rubber";
    const color = work.tool === "rubber" ? "#ff9d9d" : work.colors[work.label];
    if (this.pointer && brush) ring(this.pointer, color);
    if (!work.cursorShown) return;
    const { x, y } = work.cursor;
    if (brush) ring(work.cursor, color);
    for (const [width, ink] of [[4 * line, "rgba(0, 0, 0, .7)"], [2 * line, "#fff"]]) {
      context.lineWidth = width;
      context.strokeStyle = ink;
      context.beginPath();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.moveTo(x + 4 * line * dx, y + 4 * line * dy);
        context.lineTo(x + 14 * line * dx, y + 14 * line * dy);
      }
      context.stroke();
    }
  }
}
