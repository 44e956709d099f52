import type { JsonValue } from './json.ts'

/** Sets a member under any name: an assignment to `__proto__` would change the prototype instead. */
export function setMember(target: Record<string, JsonValue>, name: string, value: JsonValue): void {
  if (name === '__proto__') {
    Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true })
  } else {
    target[name] = value
  }
}
