/**
 * What clients of the admin API rely on, read from its OpenAPI document as lines of text: parameters, members of bodies, members that
 * answers always have, and statuses. `vectors/admin-surface.txt` has the lines that must not be lost.
 */

type Part = Readonly<Record<string, unknown>>

export function surfaceOf(document: object): ReadonlySet<string> {
  const root = partOf(document)
  const lines = new Set<string>()
  const resolve = (value: unknown): Part => {
    const part = partOf(value)
    if (typeof part.$ref !== 'string') return part
    return resolve(
      part.$ref
        .split('/')
        .slice(1)
        .reduce<unknown>((at, name) => partOf(at)[name], root),
    )
  }
  /** Adds the members of a schema; of a choice those of its variant that is not null. */
  const addMembers = (
    schema: unknown,
    where: string,
    isWanted: (name: string, of: Part) => boolean,
  ): void => {
    const part = resolve(schema)
    for (const choices of [part.anyOf, part.oneOf]) {
      const variants = Array.isArray(choices)
        ? choices.map(resolve).filter(({ type }) => type !== 'null')
        : []
      if (variants.length === 1) addMembers(variants[0], where, isWanted)
    }
    if (part.items !== undefined) addMembers(part.items, `${where}[]`, isWanted)
    for (const [name, member] of Object.entries(partOf(part.properties))) {
      if (!isWanted(name, part)) continue
      lines.add(`${where}.${name}`)
      addMembers(member, `${where}.${name}`, isWanted)
    }
  }
  for (const [path, item] of Object.entries(partOf(root.paths)))
    for (const [method, declared] of Object.entries(partOf(item))) {
      if (method === 'parameters') continue
      const operation = partOf(declared)
      const name = `${method.toUpperCase()} ${path}`
      const { parameters } = operation
      lines.add(`${name} ${String(operation.operationId)}`)
      for (const parameter of Array.isArray(parameters) ? parameters.map(partOf) : [])
        if (parameter.in !== 'path') lines.add(`${name} ${String(parameter.in)} ${String(parameter.name)}`)
      const sent = partOf(partOf(partOf(operation.requestBody).content)['application/json']).schema
      addMembers(sent, `${name} body`, () => true)
      for (const [status, response] of Object.entries(partOf(operation.responses))) {
        lines.add(`${name} ${status}`)
        if (Number(status) >= 300) continue
        const answered = partOf(partOf(resolve(response).content)['application/json']).schema
        addMembers(answered, `${name} ${status}`, (member, { required }) =>
          Array.isArray(required) ? required.includes(member) : false,
        )
      }
    }
  return lines
}

function partOf(value: unknown): Part {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
