import type { CallFailure, FailureClass } from '#client/index'
import { cleanText } from '#core/json'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Output } from './output.ts'

const EXIT_OF = {
  tool: EXIT.toolFailed,
  validation: EXIT.usage,
  requirements: EXIT.usage,
  config: EXIT.usage,
  server: EXIT.server,
  unauthenticated: EXIT.server,
  authorization_required: EXIT.server,
  approval_required: EXIT.server,
  transport: EXIT.server,
} as const satisfies Record<FailureClass, ExitCode>

const ADVICE = {
  tool: undefined,
  validation: 'collet tools --url … --json shows the input schema.',
  requirements:
    'Give what the tool needs with --secret ID=VALUE or --user ID; an operator can store secrets with collet secrets set.',
  config: undefined,
  server: undefined,
  unauthenticated: 'Pass the API key with --key, or set COLLET_API_KEY.',
  authorization_required:
    'Open the address, then repeat the call with the same --call-id; or give a token with --token ID=VALUE.',
  approval_required: 'Open the address, then repeat the call with the same --call-id.',
  transport: 'Is the server running? collet serve starts one; --url names another.',
} as const satisfies Record<FailureClass, string | undefined>

export function exitOfFailure(failure: CallFailure): ExitCode {
  return EXIT_OF[failure.class]
}

/** A failed request in words: what happened, what is wrong, what to do. For a person at a terminal. */
export function reportFailure(failure: CallFailure, output: Output): ExitCode {
  output.error(cleanText(failure.message))
  for (const [parameter, problem] of Object.entries(failure.parameterErrors)) {
    output.note(`  ${cleanText(parameter)}: ${cleanText(problem)}`)
  }
  if (failure.additionalPromptContent !== undefined)
    output.note(`  ${cleanText(failure.additionalPromptContent)}`)
  if (failure.developerMessage !== undefined) {
    output.note(`  For developers: ${cleanText(failure.developerMessage)}`)
  }
  for (const { url } of failure.challenges) output.note(`  ${cleanText(url)}`)
  const advice = ADVICE[failure.class]
  if (advice !== undefined) output.note(`  ${advice}`)
  if (failure.canRetry) output.note('  Nothing took effect: the call may be repeated.')
  return EXIT_OF[failure.class]
}
