import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.Writer;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TimeZone;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/**
 * Compiles and runs candidates in a virtual machine that stays, each in a class loader of its own. Asked
 * and answered in lines of JSON. Where what ran cannot be ended, the machine ends itself after it answered.
 * All is in one file, since that is what a machine can run with no class written to a disk.
 */
public class KaiWorker {
  static final long STOP_MS = 100;
  static final int GROUP = 256;
  static final PrintStream ANSWERS = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
  static final PrintStream NOWHERE = new PrintStream(OutputStream.nullOutputStream());

  static Plan plan;
  static JavaCompiler compiler;
  static StandardJavaFileManager files;
  static volatile Run current;
  static volatile long currentId;

  public static void main(String[] given) throws Exception {
    plan = new Plan(new Json(given[0]).object());
    compiler = ToolProvider.getSystemJavaCompiler();
    if (compiler == null) {
      ANSWERS.println("{\"kind\":\"unfit\",\"why\":\"there is no compiler\"}");
      return;
    }
    files = compiler.getStandardFileManager(null, Locale.ROOT, StandardCharsets.UTF_8);
    LinkedBlockingQueue<Map<String, Object>> asks = new LinkedBlockingQueue<>();
    Thread listener = new Thread(() -> listen(asks), "listener");
    listener.setDaemon(true);
    listener.start();
    ANSWERS.println("{\"kind\":\"ready\"}");
    State before = new State();
    while (true) {
      Map<String, Object> ask = asks.take();
      Run run = new Run(ask);
      currentId = ((Number) ask.get("id")).longValue();
      current = run;
      String kind = run.verdict();
      current = null;
      boolean ended = run.stop();
      before.restore();
      ANSWERS.println("{\"id\":" + currentId + ",\"kind\":\"" + kind + "\",\"wrote\":" + run.wrote
          + ",\"spawned\":" + run.spawned + ",\"isLast\":" + !ended + "}");
      if (!ended) Runtime.getRuntime().halt(0);
    }
  }

  static void listen(LinkedBlockingQueue<Map<String, Object>> asks) {
    try (BufferedReader lines = new BufferedReader(
        new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        Map<String, Object> ask = new Json(line).object();
        if (!ask.get("kind").equals("cancel")) asks.add(ask);
        else if (current != null && ((Number) ask.get("id")).longValue() == currentId) {
          current.end("cancelled");
        }
      }
    } catch (IOException error) {
      // The one that asks is gone.
    }
    Runtime.getRuntime().halt(0);
  }

  record Plan(List<String> options, List<String> sources, String root, String main,
      List<String> arguments, List<String> classpath, boolean asserts, Map<String, Object> properties) {
    Plan(Map<String, Object> given) {
      this(texts(given.get("options")), texts(given.get("sources")), (String) given.get("root"),
          (String) given.get("main"), texts(given.get("arguments")),
          texts(given.get("classpath")), given.get("asserts").equals(true), map(given.get("properties")));
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> map(Object value) {
      return (Map<String, Object>) value;
    }

    static List<String> texts(Object value) {
      return ((List<?>) value).stream().map(String::valueOf).toList();
    }
  }

  /** One candidate: compiled, and run in a thread group of its own. */
  static class Run {
    final Map<String, Object> ask;
    final long deadline;
    final CountDownLatch over = new CountDownLatch(1);
    final ThreadGroup group = new ThreadGroup("candidate");
    volatile String kind;
    volatile boolean wrote;
    volatile boolean spawned;
    volatile boolean unsure;
    volatile boolean isFull;

    Run(Map<String, Object> ask) {
      this.ask = ask;
      this.deadline = System.nanoTime() + ((Number) ask.get("deadlineMs")).longValue() * 1_000_000;
    }

    synchronized void end(String how) {
      if (kind == null) kind = how;
      over.countDown();
    }

    String verdict() throws InterruptedException {
      Thread thread = new Thread(group, this::act, "main");
      thread.start();
      if (!over.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)) end("timeout");
      boolean isProof = ask.get("kind").equals("prove");
      return isProof && kind.equals("broken") ? "failed" : kind;
    }

    void act() {
      try {
        Map<String, byte[]> classes = compile();
        if (unsure) {
          end("unsure");
        } else if (classes == null) {
          end("broken");
        } else {
          call(classes);
        }
      } catch (OutOfMemoryError error) {
        isFull = true;
        end("failed");
      } catch (Throwable error) {
        end("failed");
      }
    }

    Map<String, byte[]> compile() {
      Map<String, Object> changed = Plan.map(ask.get("files"));
      Map<Path, String> texts = new HashMap<>();
      changed.forEach((path, text) -> texts.put(Path.of(plan.root, path), (String) text));
      List<JavaFileObject> units = new ArrayList<>();
      for (String source : plan.sources) {
        String text = texts.remove(Path.of(source));
        if (text != null) units.add(new Text(source, text));
        else files.getJavaFileObjects(source).forEach(units::add);
      }
      // A file that is not named is read by whoever finds it, as it is on disk.
      if (!texts.isEmpty()) unsure = true;
      if (unsure) return null;
      Memory memory = new Memory(files);
      boolean compiles = compiler.getTask(Writer.nullWriter(), memory, message -> { }, plan.options, null, units)
          .call();
      if (!compiles) return null;
      Map<String, byte[]> classes = new HashMap<>();
      memory.made.forEach((name, bytes) -> classes.put(name, new ClassFile(bytes.toByteArray(), this).led()));
      return classes;
    }

    void call(Map<String, byte[]> classes) throws Exception {
      Exit.run = this;
      System.setIn(new ByteArrayInputStream(new byte[0]));
      System.setOut(NOWHERE);
      System.setErr(NOWHERE);
      plan.properties.forEach((name, value) -> System.setProperty(name, (String) value));
      Loader loader = new Loader(classes);
      loader.setDefaultAssertionStatus(plan.asserts);
      Thread.currentThread().setContextClassLoader(loader);
      Method main = Class.forName(plan.main, false, loader).getDeclaredMethod("main", String[].class);
      main.setAccessible(true);
      String how = "passed";
      try {
        main.invoke(null, (Object) plan.arguments.toArray(new String[0]));
      } catch (InvocationTargetException error) {
        isFull = error.getCause() instanceof OutOfMemoryError;
        how = "failed";
      }
      // The machine would live for as long as one of them does.
      while (others() > 0 && kind == null) Thread.sleep(1);
      end(how);
    }

    int others() {
      Thread[] threads = new Thread[GROUP];
      int count = group.enumerate(threads, true);
      int others = 0;
      for (int at = 0; at < count; at++) {
        if (threads[at] != Thread.currentThread() && !threads[at].isDaemon()) others++;
      }
      return others;
    }

    /** Whether nothing of the candidate runs any more. */
    boolean stop() throws InterruptedException {
      Exit.run = null;
      long until = System.nanoTime() + STOP_MS * 1_000_000;
      for (int round = 0; group.activeCount() > 0; round++) {
        if (System.nanoTime() > until) return false;
        Thread[] threads = new Thread[GROUP];
        int count = group.enumerate(threads, true);
        // One that has just answered is about to end by itself.
        for (int at = 0; at < count && round > 2; at++) halt(threads[at]);
        Thread.sleep(1);
      }
      return !isFull;
    }

    static void halt(Thread thread) {
      thread.interrupt();
      try {
        Thread.class.getMethod("stop").invoke(thread);
      } catch (ReflectiveOperationException error) {
        // Later machines have no way to end a thread, and are ended themselves.
      }
    }
  }

  /** Where the candidate's calls of `System.exit` lead. */
  public static class Exit extends Error {
    static volatile Run run;

    Exit() {
      super(null, null, false, false);
    }

    public static void exit(int status) {
      Run ended = run;
      if (ended != null) ended.end(status == 0 ? "passed" : "failed");
      throw new Exit();
    }
  }

  static class Text extends SimpleJavaFileObject {
    final String text;

    Text(String path, String text) {
      super(Path.of(path).toUri(), Kind.SOURCE);
      this.text = text;
    }

    @Override
    public CharSequence getCharContent(boolean ignored) {
      return text;
    }
  }

  static class Memory extends ForwardingJavaFileManager<JavaFileManager> {
    final Map<String, ByteArrayOutputStream> made = new HashMap<>();

    Memory(JavaFileManager files) {
      super(files);
    }

    @Override
    public JavaFileObject getJavaFileForOutput(
        Location location, String name, JavaFileObject.Kind kind, javax.tools.FileObject sibling) {
      URI uri = URI.create("memory:///" + name.replace('.', '/') + kind.extension);
      return new SimpleJavaFileObject(uri, kind) {
        @Override
        public OutputStream openOutputStream() {
          ByteArrayOutputStream bytes = new ByteArrayOutputStream();
          made.put(name, bytes);
          return bytes;
        }
      };
    }

    @Override
    public boolean isSameFile(javax.tools.FileObject one, javax.tools.FileObject other) {
      return one.toUri().equals(other.toUri());
    }

    @Override
    public void close() { }
  }

  static class Loader extends ClassLoader {
    final Map<String, byte[]> classes;

    Loader(Map<String, byte[]> classes) {
      super(above());
      this.classes = classes;
    }

    static ClassLoader above() {
      URL[] urls = plan.classpath.stream().map(Loader::url).toArray(URL[]::new);
      return new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
    }

    static URL url(String path) {
      try {
        return Path.of(path).toUri().toURL();
      } catch (java.net.MalformedURLException error) {
        throw new IllegalArgumentException(error);
      }
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      if (name.equals(Exit.class.getName())) return Exit.class;
      synchronized (getClassLoadingLock(name)) {
        Class<?> known = findLoadedClass(name);
        if (known != null) return known;
        byte[] bytes = classes.get(name);
        return bytes == null ? super.loadClass(name, resolve) : defineClass(name, bytes, 0, bytes.length);
      }
    }
  }

  /** What of a machine a program can change for the next one. */
  static class State {
    final Properties properties = (Properties) System.getProperties().clone();
    final Locale locale = Locale.getDefault();
    final TimeZone zone = TimeZone.getDefault();

    void restore() {
      System.setProperties((Properties) properties.clone());
      Locale.setDefault(locale);
      TimeZone.setDefault(zone);
      System.setOut(NOWHERE);
      System.setErr(NOWHERE);
    }
  }

  /** A class, read as far as its constants (section 4.4 of the Java Virtual Machine Specification). */
  static class ClassFile {
    final byte[] bytes;
    final int[] at;
    final int count;
    final int end;

    ClassFile(byte[] bytes, Run run) {
      this.bytes = bytes;
      this.count = u2(8);
      this.at = new int[count];
      int offset = 10;
      for (int index = 1; index < count; index++) {
        at[index] = offset;
        int tag = bytes[offset];
        offset += switch (tag) {
          case 1 -> 3 + u2(offset + 1);
          case 7, 8, 16, 19, 20 -> 3;
          case 15 -> 4;
          case 5, 6 -> 9;
          default -> 5;
        };
        if (tag == 5 || tag == 6) index++;
      }
      this.end = offset;
      judge(run);
    }

    void judge(Run run) {
      for (int index = 1; index < count; index++) {
        if (at[index] == 0) continue;
        if (bytes[at[index]] == 7) {
          String name = text(u2(at[index] + 1));
          if (name.matches("java/(io/(File.*|RandomAccess.*|PrintWriter)|nio/(file|channels)/.*"
              + "|util/(logging|prefs)/.*)") || !plan.classpath.isEmpty()) run.wrote = true;
          if (name.equals("java/lang/ProcessBuilder")) run.spawned = run.wrote = true;
        }
        if (bytes[at[index]] == 10) {
          String method = owner(index) + "." + name(index);
          if (method.equals("java/io/PrintStream.<init>")) run.wrote = true;
          if (method.equals("java/lang/Runtime.exec")) run.spawned = run.wrote = true;
          if (method.matches("java/lang/Runtime\\.(exit|halt|addShutdownHook)")) run.unsure = true;
        }
      }
    }

    /** The class, with `System.exit` led to where it ends the candidate alone. */
    byte[] led() {
      List<Integer> exits = new ArrayList<>();
      for (int index = 1; index < count; index++) {
        boolean isMethod = at[index] != 0 && bytes[at[index]] == 10;
        if (isMethod && owner(index).equals("java/lang/System") && name(index).equals("exit")) exits.add(index);
      }
      if (exits.isEmpty()) return bytes;
      byte[] name = Exit.class.getName().replace('.', '/').getBytes(StandardCharsets.UTF_8);
      ByteArrayOutputStream made = new ByteArrayOutputStream(bytes.length + name.length + 6);
      made.write(bytes, 0, end);
      made.write(1);
      made.write(name.length >> 8);
      made.write(name.length);
      made.writeBytes(name);
      made.write(7);
      made.write(count >> 8);
      made.write(count);
      made.write(bytes, end, bytes.length - end);
      byte[] led = made.toByteArray();
      put(led, 8, count + 2);
      for (int index : exits) put(led, at[index] + 1, count + 1);
      return led;
    }

    static void put(byte[] bytes, int offset, int value) {
      bytes[offset] = (byte) (value >> 8);
      bytes[offset + 1] = (byte) value;
    }

    String owner(int method) {
      return text(u2(at[u2(at[method] + 1)] + 1));
    }

    String name(int method) {
      return text(u2(at[u2(at[method] + 3)] + 1));
    }

    String text(int index) {
      return new String(bytes, at[index] + 3, u2(at[index] + 1), StandardCharsets.UTF_8);
    }

    int u2(int offset) {
      return (bytes[offset] & 0xff) << 8 | bytes[offset + 1] & 0xff;
    }
  }

  /** Reads the JSON that it is asked in (RFC 8259), which is known to be well formed. */
  static class Json {
    final String text;
    int at;

    Json(String text) {
      this.text = text;
    }

    Map<String, Object> object() {
      Map<String, Object> made = new HashMap<>();
      at = text.indexOf('{', at) + 1;
      while (next() != '}') {
        String name = string();
        at = text.indexOf(':', at) + 1;
        made.put(name, value());
      }
      at++;
      return made;
    }

    List<Object> list() {
      List<Object> made = new ArrayList<>();
      at++;
      while (next() != ']') made.add(value());
      at++;
      return made;
    }

    Object value() {
      switch (next()) {
        case '{': return object();
        case '[': return list();
        case '"': return string();
        default:
      }
      int from = at;
      while (at < text.length() && ",]} ".indexOf(text.charAt(at)) < 0) at++;
      String word = text.substring(from, at);
      return word.equals("true") ? (Object) true : word.equals("false") ? (Object) false
          : word.equals("null") ? null : (Object) Double.valueOf(word);
    }

    char next() {
      while (", \t".indexOf(text.charAt(at)) >= 0) at++;
      return text.charAt(at);
    }

    String string() {
      StringBuilder made = new StringBuilder();
      for (at++; text.charAt(at) != '"'; at++) {
        char letter = text.charAt(at);
        if (letter != '\\') {
          made.append(letter);
          continue;
        }
        char escaped = text.charAt(++at);
        switch (escaped) {
          case 'n' -> made.append('\n');
          case 't' -> made.append('\t');
          case 'r' -> made.append('\r');
          case 'b' -> made.append('\b');
          case 'f' -> made.append('\f');
          case 'u' -> {
            made.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
            at += 4;
          }
          default -> made.append(escaped);
        }
      }
      at++;
      return made.toString();
    }
  }
}
