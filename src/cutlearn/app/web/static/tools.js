// How marks are drawn: by mouse, pen or finger, and by keys alone. Marks go to `send`.

export class Tools {
  // `grown` is called whenever a stroke that is being drawn has become longer, `dropped` when what
  // is being drawn is given up.
  constructor(view, work, send, grown, dropped) {
    Object.assign(this, { view, work, send, grown, dropped });
    this.pointers = new Map(); // those that are down, by id
    this.drawing = null; // what the one that draws began: a stroke, a box or a move
    this.corner = null; // the first corner of a box that is set by keys
    const canvas = view.canvas;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.lost(event));
    canvas.addEventListener("pointerleave", () => this.left());
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  down(event) {
    if (!this.work.width) return;
    this.view.canvas.focus({ preventScroll: true });
    this.view.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.work.cursorShown = false;
    if (this.pointers.size > 1) {
      this.dropDrawing(); // a second finger: it was no stroke, but the start of a zoom
      return;
    }
    const at = this.view.at(event);
    const move = event.button !== 0 || this.work.tool === "hand";
    if (move) this.drawing = { kind: "move" };
    else if (this.work.tool === "box") this.drawing = { kind: "box", from: at };
    else this.beginStroke(at);
  }

  moved(event) {
    const last = this.pointers.get(event.pointerId);
    if (event.pointerType !== "touch") this.view.pointer = this.view.at(event);
    if (last && this.pointers.size > 1) this.pinch(event, last);
    else if (last && this.drawing?.kind === "move") {
      this.view.move(event.clientX - last.x, event.clientY - last.y);
    } else if (last && this.drawing?.kind === "box") {
      this.work.drawnBox = this.boxOf(this.drawing.from, this.view.at(event));
    } else if (last && this.drawing?.kind === "stroke") {
      const parts = event.getCoalescedEvents?.() ?? [];
      for (const part of parts.length ? parts : [event]) this.extend(this.view.at(part));
    }
    if (last) this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.view.changed();
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    const drawing = this.drawing;
    if (this.pointers.size || !drawing) return;
    this.drawing = null;
    if (drawing.kind === "box") this.endBox(drawing.from, this.view.at(event));
    if (drawing.kind === "stroke") this.endStroke();
  }

  lost(event) {
    this.pointers.delete(event.pointerId);
    this.dropDrawing();
  }

  left() {
    this.view.pointer = null;
    this.view.changed();
  }

  // Two fingers: what was between them stays between them.
  pinch(event, last) {
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
    const other = others[0][1];
    const box = this.view.canvas.getBoundingClientRect();
    const before = Math.hypot(last.x - other.x, last.y - other.y);
    const now = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    this.view.move((event.clientX - last.x) / 2, (event.clientY - last.y) / 2);
    if (before > 10) {
      const x = (event.clientX + other.x) / 2 - box.left, y = (event.clientY + other.y) / 2 - box.top;
      this.view.zoom(now / before, x, y);
    }
  }

  wheel(event) {
    if (!this.work.width) return;
    event.preventDefault();
    const box = this.view.canvas.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 30 : 1;
    const factor = Math.exp((-event.deltaY * lines) / 400);
    this.view.zoom(factor, event.clientX - box.left, event.clientY - box.top);
  }

  beginStroke(at) {
    const label = this.work.tool === "rubber" ? -1 : this.work.label;
    this.drawing = { kind: "stroke" };
    this.work.drawnStroke = { kind: "stroke", label, radius: this.work.radius, points: [at.x, at.y] };
    this.view.changed();
  }

  // Points that lie closer than a quarter of the brush add nothing.
  extend(at) {
    const { points, radius } = this.work.drawnStroke;
    const step = Math.hypot(at.x - points.at(-2), at.y - points.at(-1));
    if (step < Math.max(0.5, radius / 4)) return;
    if (points.length < 2 * this.work.mostPoints) points.push(at.x, at.y);
    this.grown();
  }

  endStroke() {
    const stroke = this.work.drawnStroke;
    this.work.drawnStroke = null;
    stroke.points = stroke.points.map((v) => Math.round(100 * v) / 100);
    this.send([stroke]);
  }

  boxOf(a, b) {
    const { width, height } = this.work;
    const within = (v, most) => Math.min(most, Math.max(0, v));
    const box = [
      within(Math.floor(Math.min(a.y, b.y)), height), within(Math.floor(Math.min(a.x, b.x)), width),
      within(Math.ceil(Math.max(a.y, b.y)), height), within(Math.ceil(Math.max(a.x, b.x)), width),
    ];
    return box[2] - box[0] >= 2 && box[3] - box[1] >= 2 ? box : null;
  }

  endBox(from, to) {
    const box = this.boxOf(from, to);
    this.work.drawnBox = null;
    if (box) this.send([{ kind: "box", box }]);
    this.view.changed();
  }

  dropDrawing() {
    this.drawing = this.corner = this.work.drawnBox = this.work.drawnStroke = null;
    this.dropped();
    this.view.changed();
  }

  // Send a stroke as far as it is drawn; a box that has no second corner is dropped.
  finish() {
    if (this.drawing?.kind !== "stroke") return this.dropDrawing();
    this.drawing = null;
    this.endStroke();
  }

  // By keys: the cursor moves; while Space is down the brush is on the image.
  moveCursor(dx, dy, fine) {
    const { work, view } = this;
    const step = fine ? 1 : Math.max(1, Math.round(8 / view.scale));
    const within = (v, most) => Math.min(most - 0.5, Math.max(0.5, v));
    work.cursor = {
      x: within(work.cursor.x + step * dx, work.width), y: within(work.cursor.y + step * dy, work.height),
    };
    work.cursorShown = true;
    if (this.drawing?.kind === "stroke") this.extend(work.cursor);
    if (this.corner) work.drawnBox = this.boxOf(this.corner, work.cursor);
    view.keepSeen(work.cursor);
    view.changed();
  }

  pressCursor() {
    const { work } = this;
    work.cursorShown = true;
    if (work.tool === "box") {
      if (this.corner) {
        const from = this.corner;
        this.corner = null;
        this.endBox(from, work.cursor);
        return "box drawn";
      }
      this.corner = { ...work.cursor };
      this.view.changed();
      return "first corner set; go to the other and press Space";
    }
    if (work.tool !== "hand" && !this.drawing) this.beginStroke(work.cursor);
    return "";
  }

  releaseCursor() {
    if (this.drawing?.kind !== "stroke" || this.pointers.size) return;
    this.drawing = null;
    this.endStroke();
  }
}
