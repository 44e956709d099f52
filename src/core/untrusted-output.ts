const OWN_CODE = 'openwop:'

/**
 * Whether what a tool gives was written by somebody else, by its catalog id: everything but code of this server's own
 * operator, and so workflows too, which pass on what their steps gave (OWP-58). Models must not take it for instructions.
 */
export function hasUntrustedOutput(catalogId: string): boolean {
  return !catalogId.startsWith(OWN_CODE)
}
