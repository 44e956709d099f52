/**
 * Puts a text on the clipboard, and tells whether it is there. Browsers give a page their clipboard only over https or on one's own
 * machine, and a server is often looked at over plain http from another one: there the text is selected and copied as if by hand.
 */
export async function copyText(text: string): Promise<boolean> {
  try {
    // It is not there at all where the connection is not safe, whatever its type says.
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copyBySelecting(text)
  }
}

function copyBySelecting(text: string): boolean {
  const before = document.activeElement
  const field = document.createElement('textarea')
  field.className = 'vh'
  field.value = text
  field.readOnly = true
  // Beside what was pressed: a dialog lets nothing outside of it be selected.
  const beside = before?.parentElement ?? document.body
  beside.append(field)
  try {
    field.select()
    return document.execCommand('copy')
  } catch {
    return false
  } finally {
    field.remove()
    if (before instanceof HTMLElement) before.focus({ preventScroll: true })
  }
}
