import { setMember } from '#core/json'
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
  checkReferences(document, findings)
  if (findings.hasErrors) throw new OpenToolDocumentError(findings.all())
  const { schemas, functions, ...rest } = document
  const inliner = new Inliner(schemas ?? {})
  // First, so that a cycle is cut in the same place wherever it is entered.
  const inlined = schemas === undefined ? {} : { schemas: inliner.inlineNamed(schemas) }
  return { ...rest, functions: functions.map((each) => inliner.inlineFunction(each)), ...inlined }
}

class Inliner {
  readonly #schemas: OpenToolSchemas
  readonly #named = new Map<OpenToolSchema, OpenToolValueSchema | 'open'>()

  constructor(schemas: OpenToolSchemas) {
    this.#schemas = schemas
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

  inlineNamed(schemas: OpenToolSchemas): OpenToolSchemas {
    return mapMembers(schemas, (schema) => this.#inlineOnce(schema))
  }

  #inlineReturn(returned: OpenToolReturn): OpenToolReturn {
    return { ...returned, schema: this.#inline(returned.schema) }
  }

  #inline(schema: OpenToolSchema): OpenToolValueSchema {
    return isReference(schema) ? this.#follow(schema) : this.#inlineValue(schema)
  }

  #inlineValue(schema: OpenToolValueSchema): OpenToolValueSchema {
    const { properties, items, ...rest } = schema
    return {
      ...rest,
      ...(properties === undefined
        ? {}
        : { properties: mapMembers(properties, (member) => this.#inline(member)) }),
      ...(items === undefined ? {} : { items: this.#inline(items) }),
    }
  }

  #follow(reference: OpenToolReference): OpenToolValueSchema {
    const target = targetOf(this.#schemas, reference)
    if (target === undefined) throw new OpenToolDocumentError([danglingFinding(reference)])
    return this.#named.get(target) === 'open' ? cutSchema(reference) : this.#inlineOnce(target)
  }

  #inlineOnce(named: OpenToolSchema): OpenToolValueSchema {
    const known = this.#named.get(named)
    if (known !== undefined && known !== 'open') return known
    this.#named.set(named, 'open')
    const inlined = this.#inline(named)
    this.#named.set(named, inlined)
    return inlined
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
