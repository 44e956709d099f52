import { useLocation } from '@tanstack/react-router'

/**
 * Inputs of calls that one place hands to another, by the record they are from. Only the record goes with the step of the history;
 * the input itself stays in this page, as an address or the history would keep it for whoever uses the browser next.
 */
const inputs = new Map<string, unknown>()

export function handInput(record: string, input: unknown): void {
  inputs.set(record, input)
}

/** What was handed to the page that is open; `undefined` when nothing was, or the page has been loaded anew since. */
export function useHandedInput(): unknown {
  const { inputOf } = useLocation().state
  return inputOf === undefined ? undefined : inputs.get(inputOf)
}

declare module '@tanstack/react-router' {
  interface HistoryState {
    inputOf?: string
  }
}
