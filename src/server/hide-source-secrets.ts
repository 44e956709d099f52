import type { SourceOptions } from '#config/schema'
import { isSecretName } from '#core/approvals/binding'
import { cleanerFor } from '#core/calls/redact'
import type { Source } from '#core/ports/source'
import { Secret } from '#core/secret'

/** The same source, whose answers and failures lose what it was configured with, whoever echoes it (OWP-58). */
export function hideSourceSecrets(source: Source, options: SourceOptions): Source {
  const cleaner = cleanerFor(secretsIn(options))
  if (cleaner === undefined) return source
  const inner = source.invoke.bind(source)
  source.invoke = async (invocation) => {
    try {
      return cleaner.output(await inner(invocation))
    } catch (error) {
      throw cleaner.thrown(error)
    }
  }
  return source
}

/**
 * Wherever options of any type keep one, if something around it is named like a credential: headers and variables hold ordinary
 * words too (`application/json`), which must not vanish from answers.
 */
function secretsIn(value: unknown, isCredential = false): readonly Secret[] {
  if (value instanceof Secret) return isCredential ? spellingsOf(value) : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) =>
    secretsIn(member, isCredential || isSecretName(name)),
  )
}

/** A header has its scheme before the credential. */
function spellingsOf(secret: Secret): readonly Secret[] {
  const bare = /^(?:bearer|basic|token|apikey) +(\S+)$/i.exec(secret.reveal())?.[1]
  return bare === undefined ? [secret] : [new Secret(bare), secret]
}
