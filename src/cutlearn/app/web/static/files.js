// Files in and out: images that are chosen or dropped, and the zip of everything that was made.

import { ask } from "./api.js";

const find = (id) => document.getElementById(id);

export class Files {
  // `adding` is called when files come, and what it returns with the number of the last image;
  // `tried` shows what goes wrong.
  constructor(say, tried, adding) {
    Object.assign(this, { say, tried, adding });
    this.mostBytes = Infinity;
    find("file").addEventListener("change", (event) => {
      this.add([...event.target.files]);
      event.target.value = "";
    });
    document.addEventListener("dragover", (event) => {
      event.preventDefault();
      find("stage").classList.add("drop");
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) find("stage").classList.remove("drop");
    });
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      find("stage").classList.remove("drop");
      this.add([...event.dataTransfer.files]);
    });
  }

  async add(list) {
    const added = this.adding();
    let last = null;
    for (const file of list) {
      await this.tried(async () => {
        if (file.size > this.mostBytes) throw new Error(`${file.name} is too large.`);
        const path = `/api/images?name=${encodeURIComponent(file.name)}`;
        last = (await (await ask(path, { method: "POST", body: file })).json()).image;
      });
    }
    if (last !== null) await added(last);
  }

  async exportAll() {
    this.say("The zip is being made …", true);
    await this.tried(async () => {
      const blob = await (await ask("/api/export")).blob();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = "cutlearn.zip";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      this.say("Exported: cutlearn.zip");
    });
  }
}
