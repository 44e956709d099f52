import { setMember } from '#core/set-member'
import {
  isReference,
  type OpenToolDocument,
  type OpenToolFunction,
  type OpenToolReference,
  type OpenToolReturn,
  type OpenToolSchema,
  type OpenToolSchemas,
  type OpenToolValueSchema,
} from './codec-document.ts'
import { type DocumentFinding, FindingList, OpenToolDocumentError } from './codec-document-finding.ts'
import { checkReferences, targetOf } from './codec-document-references.ts'
import { referenceName } from './codec-document-schema.ts'

/**
 * The same document without a `$ref`, `schemas` kept and written out as well (OTS-24, OTS-45). A reference
 * that closes a cycle becomes a free-form object with a note (OTS-22). Equal parts are shared, so treat the
 * result as read-only. Throws `OpenToolDocumentError` for what cannot be written out.
 */
export function dereference(document: OpenToolDocument): OpenToolDocument {
  const findings = new FindingList('lenient')
  const cuts = checkReferences(document, findings)
  if (findings.hasErrors) throw new OpenToolDocumentError(findings.all())
  const inliner = new Inliner(document.schemas ?? {}, cuts)
  const { schemas, functions, ...rest } = document
  return {
    ...rest,
    functions: functions.map((each) => inliner.inlineFunction(each)),
    ...(schemas === undefined ? {} : { schemas: inliner.inlineAll(schemas) }),
  }
}

class Inliner {
  readonly #schemas: OpenToolSchemas
  readonly #cuts: ReadonlySet<OpenToolReference>
  readonly #known = new Map<OpenToolSchema, OpenToolValueSchema>()

  constructor(schemas: OpenToolSchemas, cuts: ReadonlySet<OpenToolReference>) {
    this.#schemas = schemas
    this.#cuts = cuts
  }

  inlineFunction(written: OpenToolFunction): OpenToolFunction {
    const { parameters, return: returned, stream, ...rest } = written
    return {
      ...rest,
      parameters: parameters.map((parameter) => ({ ...parameter, schema: this.#inline(parameter.schema) })),
      ...(returned === undefined ? {} : { return: this.#inlineReturn(returned) }),
      ...(stream === undefined ? {} : { stream: mapMembers(stream, (event) => this.#inlineReturn(event)) }),
    }
  }

  inlineAll(schemas: OpenToolSchemas): OpenToolSchemas {
    return mapMembers(schemas, (schema) => this.#inline(schema))
  }

  #inlineReturn(returned: OpenToolReturn): OpenToolReturn {
    return { ...returned, schema: this.#inline(returned.schema) }
  }

  #inline(schema: OpenToolSchema): OpenToolValueSchema {
    const known = this.#known.get(schema)
    if (known !== undefined) return known
    const inlined = isReference(schema) ? this.#follow(schema) : this.#inlineValue(schema)
    this.#known.set(schema, inlined)
    return inlined
  }

  #inlineValue(schema: OpenToolValueSchema): OpenToolValueSchema {
    const { properties, items, ...rest } = schema
    return {
      ...rest,
      ...(properties === undefined ? {} : { properties: this.inlineAll(properties) }),
      ...(items === undefined ? {} : { items: this.#inline(items) }),
    }
  }

  #follow(reference: OpenToolReference): OpenToolValueSchema {
    if (this.#cuts.has(reference)) return cutSchema(reference)
    const target = targetOf(this.#schemas, reference)
    if (target === undefined) throw new OpenToolDocumentError([danglingFinding(reference)])
    return this.#inline(target)
  }
}

function cutSchema({ $ref }: OpenToolReference): OpenToolValueSchema {
  const description = `A recursive ${referenceName($ref)}, not written out any further.`
  return { type: 'object', description, properties: {} }
}

/** Only a document that was not read by us can still have one. */
function danglingFinding({ $ref }: OpenToolReference): DocumentFinding {
  const message = `\`schemas\` has nothing for the reference ${JSON.stringify($ref)}.`
  return { path: '', rule: 'OTS-21', level: 'error', message }
}

function mapMembers<From, To>(
  members: Readonly<Record<string, From>>,
  change: (member: From) => To,
): Readonly<Record<string, To>> {
  const changed: Record<string, To> = {}
  for (const [name, member] of Object.entries(members)) setMember(changed, name, change(member))
  return changed
}
