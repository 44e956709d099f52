/** Sets a member under any name: an assignment to `__proto__` would change the prototype instead. */
export function setMember<Value>(target: Record<string, Value>, name: string, value: Value): void {
  if (name === '__proto__') {
    Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true })
  } else {
    target[name] = value
  }
}
