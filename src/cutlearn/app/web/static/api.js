// The server's addresses. Every answer that is not right becomes an Error with its sentence.

const decoder = new TextDecoder();

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const lost = new Error("The server does not answer. Is `cutlearn serve` still running?");
    lost.lost = true;
    throw lost;
  }
  if (!answer.ok) {
    const failed = new Error((await answer.text()) || `The server said ${answer.status}.`);
    failed.lost = answer.status === 503;
    throw failed;
  }
  return answer;
}

export async function asked(path, body, method = "POST") {
  const options = { method };
  if (body !== undefined) options.body = JSON.stringify(body);
  return (await ask(path, options)).json();
}

export const told = async (path) => (await ask(path)).json();

// An answer of values and planes: the length of the JSON in 4 bytes, the JSON, the planes.
export async function packed(path, options) {
  const buffer = await (await ask(path, options)).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const meta = JSON.parse(decoder.decode(new Uint8Array(buffer, 4, length)));
  return { meta, planes: new Uint8Array(buffer, 4 + length) };
}

// Answers of one kind: `ask` before a request returns what says, when its answer arrives, whether
// no answer to a later request has arrived before.
export class Order {
  asked = 0;
  arrived = 0;

  ask() {
    const turn = ++this.asked;
    return () => {
      const newest = turn > this.arrived;
      if (newest) this.arrived = turn;
      return newest;
    };
  }
}

// The key of this tab stays when the page is reloaded, and is new in a copy of the tab: two tabs
// never share one, since each holds a lock of its name.
export async function tabKey() {
  const known = sessionStorage.getItem("tab");
  const key = known && (await held(known)) ? known : freshKey();
  if (key !== known) await held(key);
  sessionStorage.setItem("tab", key);
  return key;
}

function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
}

function held(key) {
  if (!navigator.locks) return Promise.resolve(true);
  return new Promise((resolve) => {
    navigator.locks.request(`cutlearn-${key}`, { ifAvailable: true }, (lock) => {
      resolve(lock !== null);
      return lock ? new Promise(() => {}) : undefined;
    });
  });
}
