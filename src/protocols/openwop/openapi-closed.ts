/** An object with these members and no other. */
export function closed(required: readonly string[], properties: object) {
  return { type: 'object', additionalProperties: false, required, properties } as const
}
