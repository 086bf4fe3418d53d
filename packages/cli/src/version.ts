/** The release; a test holds it to the package's own. */
export const VERSION = "0.1.0";
